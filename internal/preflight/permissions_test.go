// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// texts are the commands for the permissions, without what they have in common.
func texts(permissions []Permission) []string {
	var all []string
	for _, permission := range permissions {
		all = append(all, strings.TrimPrefix(permission.String(), "kubectl auth can-i "))
	}
	return all
}

func TestPermissionsInNamespaces(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	needs := Needs{Namespaces: []string{"a", "b"}, Lease: "ops/leader", AuthenticatesMetrics: true}
	var want []string
	for _, namespace := range needs.Namespaces {
		for _, permission := range []string{
			"get scaledjobs.batch.miracle.dev", "list scaledjobs.batch.miracle.dev", "watch scaledjobs.batch.miracle.dev",
			"patch scaledjobs.batch.miracle.dev --subresource=status",
			"create jobs.batch", "delete jobs.batch", "get jobs.batch", "list jobs.batch", "watch jobs.batch",
			"create events.events.k8s.io", "patch events.events.k8s.io",
			"update scaledjobs.batch.miracle.dev --subresource=finalizers",
		} {
			want = append(want, permission+" --namespace="+namespace)
		}
	}
	want = append(want,
		"get leases.coordination.k8s.io/leader --namespace=ops", "create leases.coordination.k8s.io --namespace=ops",
		"update leases.coordination.k8s.io/leader --namespace=ops",
		"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
	)
	g.Expect(texts(needs.Permissions())).To(Equal(want))
	for _, permission := range needs.Permissions() {
		degrades := strings.Contains(permission.String(), "events") || strings.Contains(permission.String(), "finalizers") ||
			strings.Contains(permission.String(), "reviews")
		g.Expect(permission.Required()).To(Equal(!degrades), permission.String())
	}
}

func TestPermissionsInAllNamespaces(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	permissions := texts(Needs{}.Permissions())
	g.Expect(permissions).To(HaveLen(12))
	g.Expect(permissions).To(HaveEach(HaveSuffix(" --all-namespaces")))
}

func TestPermissionsInManyNamespaces(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(Needs{Namespaces: make([]string, 10*MaxNamespaces)}.Permissions()).To(HaveLen(12 * MaxNamespaces))
}

// What is asked for is what the generated roles grant, no more and no less.
func TestPermissionsAreThoseOfTheRoles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	manifest, err := os.ReadFile("../../config/rbac/role.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var granted []string
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var role rbacv1.ClusterRole
		g.Expect(yaml.Unmarshal([]byte(document), &role)).To(Succeed())
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				granted = append(granted, fmt.Sprintf("%s %s %s", verb, rule.APIGroups[0], rule.Resources[0]))
			}
		}
	}
	var asked []string
	for _, permission := range (Needs{Lease: "ops/leader", AuthenticatesMetrics: true}).Permissions() {
		resource := permission.Resource
		if permission.Subresource != "" {
			resource += "/" + permission.Subresource
		}
		asked = append(asked, fmt.Sprintf("%s %s %s", permission.Verb, permission.Group, resource))
	}
	g.Expect(asked).To(ConsistOf(granted))
}

func TestFirstMissing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var asked atomic.Int32
	denied := "b"
	ask := func(_ context.Context, permission Permission) (bool, error) {
		asked.Add(1)
		return permission.Namespace != denied, nil
	}
	permissions := Needs{Namespaces: []string{"a", "b", "c", "d", "e", "f"}}.Permissions() // of 12 each
	missing, rest, err := FirstMissing(t.Context(), ask, permissions)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(texts(missing)).To(HaveEach(HaveSuffix("--namespace=b")))
	g.Expect(missing).To(HaveLen(4))
	g.Expect(rest).To(Equal(permissions))
	g.Expect(asked.Load()).To(Equal(int32(reviewsAtOnce)), "the rest can wait")

	denied = "c"
	missing, rest, err = FirstMissing(t.Context(), ask, rest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(missing).To(HaveLen(8))
	g.Expect(rest).To(Equal(permissions[reviewsAtOnce:]), "what was granted is not asked for again")

	denied = ""
	g.Expect(FirstMissing(t.Context(), ask, rest)).To(BeEmpty())
}

func TestMissingWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	errAway := errors.New("away")
	ask := func(context.Context, Permission) (bool, error) { return false, errAway }
	missing, _, err := FirstMissing(t.Context(), ask, Needs{}.Permissions())
	g.Expect(err).To(MatchError(errAway))
	g.Expect(missing).To(BeEmpty())
}
