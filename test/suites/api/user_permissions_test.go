// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// What people may do with ScaledJobs. Nobody of them writes the status.
var (
	look = []string{
		"get scaledjobs.batch.miracle.dev", "list scaledjobs.batch.miracle.dev", "watch scaledjobs.batch.miracle.dev",
		"get scaledjobs/status.batch.miracle.dev",
	}
	change = slices.Concat(look, []string{
		"create scaledjobs.batch.miracle.dev", "update scaledjobs.batch.miracle.dev", "patch scaledjobs.batch.miracle.dev",
		"delete scaledjobs.batch.miracle.dev", "deletecollection scaledjobs.batch.miracle.dev",
	})
)

func TestPeopleMayDoWhatTheirRoleSays(t *testing.T) {
	t.Parallel()
	for role, want := range map[string][]string{
		// Those of Kubernetes, which a cluster's users have.
		"view": look, "edit": change, "admin": change,
		// Those of our own, for people who have to do with nothing else.
		prefix + "scaledjob-viewer": look, prefix + "scaledjob-editor": change, prefix + "scaledjob-admin": change,
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			user := newUser(t, namespace, role)
			NewWithT(t).Eventually(func(g Gomega) {
				all, err := permissions(t.Context(), user, namespace)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(slices.DeleteFunc(all, isNotOurs)).To(ConsistOf(want))
			}).Should(Succeed())
			NewWithT(t).Expect(permissions(t.Context(), user, operator.Namespace)).NotTo(ContainElement(ContainSubstring("scaledjobs")))
		})
	}
}

func TestOurRolesGrantNothingElse(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"scaledjob-viewer", "scaledjob-editor", "scaledjob-admin"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var clusterRole rbacv1.ClusterRole
			g.Expect(newClientOf(t, control.Config()).Get(t.Context(), client.ObjectKey{Name: prefix + role}, &clusterRole)).To(Succeed())
			for _, rule := range clusterRole.Rules {
				g.Expect(rule.APIGroups).To(ConsistOf("batch.miracle.dev"))
				g.Expect(rule.NonResourceURLs).To(BeEmpty())
			}
		})
	}
}

func TestAnEditorSuspendsAndAViewerDoesNot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := newNamespace(t)
	editor, viewer := newUser(t, namespace, "edit"), newUser(t, namespace, "view")
	emails := typed(g, object(g, at("metadata.namespace", namespace)))
	g.Eventually(func() error { return editor.Create(t.Context(), emails) }).Should(Succeed())
	g.Eventually(func() error { return viewer.Get(t.Context(), client.ObjectKeyFromObject(emails), emails) }).Should(Succeed())

	stop := func() client.Patch {
		return client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
	}
	g.Expect(viewer.Patch(t.Context(), emails.DeepCopy(), stop())).To(forbidden())
	g.Expect(editor.Patch(t.Context(), emails.DeepCopy(), stop())).To(Succeed())
	g.Expect(viewer.Get(t.Context(), client.ObjectKeyFromObject(emails), emails)).To(Succeed())
	g.Expect(emails.Spec.Suspend).To(BeTrue())
	pretend := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"queueDepth":0}}`))
	g.Expect(editor.Status().Patch(t.Context(), emails.DeepCopy(), pretend)).To(forbidden())
}

// isNotOurs tells permissions to other things than ScaledJobs.
func isNotOurs(permission string) bool { return !strings.HasSuffix(permission, ".batch.miracle.dev") }

// newUser makes somebody have a role in a namespace.
func newUser(t *testing.T, namespace, role string) client.Client {
	t.Helper()
	name := role + " of " + namespace
	NewWithT(t).Expect(newClientOf(t, control.Config()).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})).To(Succeed())
	return newClientOf(t, asUser(name))
}
