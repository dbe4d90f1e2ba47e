// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// account is a ServiceAccount in a namespace of its own that has no permissions yet.
type account struct {
	*WithT
	t         *testing.T
	namespace string
	access    *rest.Config
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{WithT: NewWithT(t), t: t}
	a.namespace = must.Get(withoutOperator.Cluster.CreateNamespace(t.Context(), "operator"))(a)
	a.Expect(withoutOperator.API.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "operator"},
	})).To(Succeed())
	a.access = must.Get(withoutOperator.Cluster.ServiceAccountConfig(t.Context(), a.namespace, "operator"))(a)
	return a
}

// grant gives the account a Role with these rules.
func (a *account) grant(namespace string, rules []rbacv1.PolicyRule) *rbacv1.RoleBinding {
	a.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: a.namespace}
	a.Expect(withoutOperator.API.Create(a.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules})).To(Succeed())
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.namespace, Name: "operator"}},
	}
	a.Expect(withoutOperator.API.Create(a.t.Context(), binding)).To(Succeed())
	return binding
}

// rules are the rules of the generated roles: of the Role for the Lease, or of the ClusterRole as far as they are
// about objects in a namespace.
func (a *account) rules(kind string) []rbacv1.PolicyRule {
	a.t.Helper()
	manifest := must.Get(os.ReadFile("../../../config/rbac/role.yaml"))(a)
	var rules []rbacv1.PolicyRule
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var role rbacv1.ClusterRole
		a.Expect(yaml.Unmarshal([]byte(document), &role)).To(Succeed())
		if role.Kind == kind {
			rules = append(rules, role.Rules...)
		}
	}
	a.Expect(rules).NotTo(BeEmpty())
	return slices.DeleteFunc(rules, func(rule rbacv1.PolicyRule) bool { return strings.HasSuffix(rule.Resources[0], "reviews") })
}

// election are the flags for a leader election in the namespace of the account.
func (a *account) election() []string {
	return []string{
		"--leader-elect", "--leader-election-namespace=" + a.namespace,
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms",
	}
}

// The operator has no permission in the whole cluster.
func TestRolesInTheWatchedNamespacesAreEnough(t *testing.T) {
	t.Parallel()
	a, one, two := newAccount(t), newScaledJobWithoutOperator(t), newScaledJobWithoutOperator(t)
	a.grant(one.Namespace, a.rules("ClusterRole"))
	a.grant(two.Namespace, a.rules("ClusterRole"))
	leases := a.grant(a.namespace, a.rules("Role"))
	early := startEarly(t, a.access, append(a.election(), "--watch-namespaces="+one.Namespace+","+two.Namespace)...)
	awaitReady(t, early)
	for _, s := range []*scaledJob{one, two} {
		s.create(sjtest.Polling(1))
		s.Push(2)
		s.Eventually(s.jobsEver).Should(Equal(2))
	}
	a.Expect(operator.Leader(t.Context(), withoutOperator.API, a.namespace, operator.DefaultLease)).NotTo(BeEmpty())
	a.Expect(strings.ToLower(early.Logs())).NotTo(ContainSubstring("forbidden"))

	// The Lease can't be renewed any more.
	a.Expect(withoutOperator.API.Delete(t.Context(), leases)).To(Succeed())
	a.Eventually(early.Exited()).Should(BeClosed())
	a.Expect(early.Logs()).To(And(ContainSubstring("leases.coordination.k8s.io"), ContainSubstring("the operator ends")))
	a.Expect(early.Kill()).To(Succeed(), "it has ended")
}

// The permissions in one of the namespaces come late. Until then, the operator is not ready, and its log says what it
// may not do.
func TestOperatorWaitsForItsPermissions(t *testing.T) {
	t.Parallel()
	a, one, two := newAccount(t), newScaledJobWithoutOperator(t), newScaledJobWithoutOperator(t)
	a.grant(one.Namespace, a.rules("ClusterRole"))
	early := startEarly(t, a.access, append(a.election(), "--watch-namespaces="+one.Namespace+","+two.Namespace)...)
	denied := func(resource, group string) string {
		return `cannot list resource \"` + resource + `\" in API group \"` + group + `\" in the namespace \"` + two.Namespace + `\"`
	}
	a.Eventually(early.Logs).Should(And(
		ContainSubstring(denied("jobs", "batch")), ContainSubstring(denied("scaledjobs", "batch.miracle.dev"))))
	a.Expect(early.Logs()).NotTo(ContainSubstring(one.Namespace))
	a.grant(two.Namespace, a.rules("ClusterRole"))
	a.Eventually(early.Logs).Should(ContainSubstring("leases.coordination.k8s.io"))
	_, err := operator.Get(t.Context(), early.ProbeURL()+"/readyz")
	a.Expect(err).To(HaveOccurred())
	a.grant(a.namespace, a.rules("Role"))
	awaitReady(t, early)
	two.create(sjtest.Polling(1))
	two.Push(1)
	two.Eventually(two.jobsEver).Should(Equal(1))
}

// The permission to write statuses is lost while the operator runs. Jobs are made all the same.
func TestRightToWriteStatusesIsLost(t *testing.T) {
	t.Parallel()
	a, s := newAccount(t), newScaledJobWithoutOperator(t)
	binding := a.grant(s.Namespace, a.rules("ClusterRole"))
	early := startEarly(t, a.access, "--watch-namespaces="+s.Namespace)
	awaitReady(t, early)
	s.create(sjtest.Polling(1))
	s.Push(1)
	s.Eventually(s.jobsEver).Should(Equal(1))

	var role rbacv1.Role
	a.Expect(withoutOperator.API.Get(t.Context(), client.ObjectKeyFromObject(binding), &role)).To(Succeed())
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return rule.Resources[0] == "scaledjobs/status" })
	a.Expect(withoutOperator.API.Update(t.Context(), &role)).To(Succeed())
	pushed := 1
	a.Eventually(func() string {
		s.Push(1)
		pushed++
		return early.Logs()
	}).WithPolling(time.Second).Should(ContainSubstring("the operator may not write statuses"))
	s.Push(3)
	s.Eventually(s.jobsEver).Should(Equal(pushed + 3))
	var jobs batchv1.JobList
	a.Expect(withoutOperator.API.List(t.Context(), &jobs, client.InNamespace(s.Namespace))).To(Succeed())
	a.Expect(jobs.Items).To(HaveLen(pushed + 3))
}
