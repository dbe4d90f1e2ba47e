// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/secrets"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// everywhere is all that the operator may do in any namespace. What is not needed for its work must not be added.
var everywhere = []string{
	"create events.events.k8s.io", "patch events.events.k8s.io",
	"create jobs.batch", "delete jobs.batch", "get jobs.batch", "list jobs.batch", "watch jobs.batch",
	"get scaledjobs.batch.miracle.dev", "list scaledjobs.batch.miracle.dev", "watch scaledjobs.batch.miracle.dev",
	"patch scaledjobs/status.batch.miracle.dev", "update scaledjobs/finalizers.batch.miracle.dev",
	"get secrets",
	// To know who may get the metrics.
	"create subjectaccessreviews.authorization.k8s.io", "create tokenreviews.authentication.k8s.io",
}

// atHome is what it may do besides in its own namespace.
var atHome = []string{
	"create leases.coordination.k8s.io", "get leases.coordination.k8s.io", "update leases.coordination.k8s.io",
}

// forbidden matches an error of the API server that says so. A matcher belongs to one test: it keeps what it matched.
func forbidden() types.GomegaMatcher { return MatchError(apierrors.IsForbidden, "IsForbidden") }

func TestTheOperatorMayDoWhatItNeedsAndNoMore(t *testing.T) {
	for namespace, want := range map[string][]string{
		newNamespace(t):    everywhere,
		operator.Namespace: slices.Concat(everywhere, atHome),
	} {
		g := NewWithT(t)
		anybodys, err := permissions(t.Context(), newClientOf(t, asServiceAccount(t, namespace, "default")), namespace)
		g.Expect(err).NotTo(HaveOccurred())
		all, err := permissions(t.Context(), newClientOf(t, asOperator(t)), namespace)
		g.Expect(err).NotTo(HaveOccurred())
		own := slices.DeleteFunc(all, func(permission string) bool { return slices.Contains(anybodys, permission) })
		g.Expect(own).To(ConsistOf(want))
	}
}

func TestTheOperatorGetsASecretByItsName(t *testing.T) {
	g := NewWithT(t)
	reader := secrets.NewReader(newClientOf(t, asOperator(t)))
	for _, kind := range []corev1.SecretType{corev1.SecretTypeOpaque, corev1.SecretTypeTLS} {
		secret := newSecret(t, newNamespace(t), kind)
		g.Expect(reader.Read(t.Context(), secret.Namespace, secret.Name)).To(Equal(secret.Data))

		_, err := reader.Read(t.Context(), secret.Namespace, "absent")
		expectReason(g, err, failure.ReasonSecretNotFound)
	}
	_, err := reader.Read(t.Context(), "no-such-namespace", "redis")
	expectReason(g, err, failure.ReasonSecretNotFound)
}

func TestTheOperatorIsRefusedWhatItDoesNotNeed(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	secret := newSecret(t, namespace, corev1.SecretTypeOpaque)
	scaledJob := newScaledJob(t, namespace)
	api := newClientOf(t, asOperator(t))
	here := client.InNamespace(namespace)

	// Without these two there can be no informer of Secrets.
	g.Expect(api.List(t.Context(), &corev1.SecretList{}, here)).To(forbidden())
	_, err := api.Watch(t.Context(), &corev1.SecretList{}, here)
	g.Expect(err).To(forbidden())
	g.Expect(api.List(t.Context(), &corev1.SecretList{})).To(forbidden())

	g.Expect(api.Update(t.Context(), secret)).To(forbidden())
	g.Expect(api.Delete(t.Context(), secret)).To(forbidden())
	g.Expect(api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}})).To(forbidden())

	lessen := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"maxReplicas":1}}`))
	g.Expect(api.Patch(t.Context(), scaledJob, lessen)).To(forbidden())
	g.Expect(api.Delete(t.Context(), scaledJob)).To(forbidden())

	for _, others := range []client.ObjectList{&corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.NamespaceList{}, &rbacv1.RoleBindingList{}} {
		g.Expect(api.List(t.Context(), others)).To(forbidden())
	}
}

// TestSecretsOfChosenNamespaces shows what an administrator can do who does not want the operator to read all Secrets.
func TestSecretsOfChosenNamespaces(t *testing.T) {
	g := NewWithT(t)
	administrator := newClientOf(t, control.Config())
	chosen := newSecret(t, newNamespace(t), corev1.SecretTypeOpaque)
	other := newSecret(t, newNamespace(t), corev1.SecretTypeOpaque)

	t.Cleanup(func() { g.Expect(operator.Install(context.WithoutCancel(t.Context()), control)).To(Succeed()) })
	g.Expect(administrator.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: prefix + "secret-reader"}})).To(Succeed())
	g.Expect(administrator.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: chosen.Namespace, Name: "redis-secrets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: prefix + "secret-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operator.Namespace, Name: operator.ServiceAccount}},
	})).To(Succeed())

	reader := secrets.NewReader(newClientOf(t, asOperator(t)))
	g.Eventually(func(g Gomega) {
		_, err := reader.Read(t.Context(), other.Namespace, other.Name)
		expectReason(g, err, failure.ReasonSecretForbidden)
		g.Expect(reader.Read(t.Context(), chosen.Namespace, chosen.Name)).To(Equal(chosen.Data))
	}).Should(Succeed())
	_, err := reader.Read(t.Context(), operator.Namespace, "any")
	expectReason(g, err, failure.ReasonSecretForbidden)
}

func expectReason(g Gomega, err error, reason failure.Reason) {
	var classified *failure.Error
	g.Expect(errors.As(err, &classified)).To(BeTrue(), "%v", err)
	g.Expect(classified.Reason).To(Equal(reason))
}

func newSecret(t *testing.T, namespace string, kind corev1.SecretType) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis"},
		Type:       kind,
		Data:       map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key"), "password": []byte("pw")},
	}
	NewWithT(t).Expect(newClientOf(t, control.Config()).Create(t.Context(), secret)).To(Succeed())
	return secret
}

func newScaledJob(t *testing.T, namespace string) *scaledjobv1.ScaledJob {
	t.Helper()
	g := NewWithT(t)
	scaledJob := typed(g, object(g, at("metadata.namespace", namespace)))
	g.Expect(newClientOf(t, control.Config()).Create(t.Context(), scaledJob)).To(Succeed())
	return scaledJob
}
