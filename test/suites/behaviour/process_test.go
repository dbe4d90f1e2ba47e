// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/inject"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// newScaledJobWithoutOperator returns a ScaledJob without an operator, and with a Redis server of its own.
func newScaledJobWithoutOperator(t *testing.T) *scaledJob {
	t.Helper()
	return newScaledJobIn(t, withoutOperator, redistest.New(t, redistest.Options{}))
}

// operate starts an operator for the namespace of the ScaledJob.
func (s *scaledJob) operate(args ...string) *operator.Operator {
	s.t.Helper()
	return operator.New(s.t, operator.Options{
		Cluster: s.Cluster,
		Args:    append([]string{"--watch-namespaces=" + s.Namespace, noFallback}, args...),
	})
}

func TestSecondReplicaStandsByAndTakesOver(t *testing.T) {
	t.Parallel()
	s := newScaledJobWithoutOperator(t)
	s.create(sjtest.Polling(sjtest.Never))
	election := []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace}
	first := s.operate(election...)
	s.awaitSubscription()
	second := s.operate(election...)
	for _, path := range []string{"/healthz", "/readyz"} {
		s.Expect(operator.Get(t.Context(), second.ProbeURL()+path)).Error().NotTo(HaveOccurred())
	}
	s.Push(3)
	s.Operator = first
	s.expectJobsEver(3)
	s.Expect(s.Subscribers()).To(BeEquivalentTo(1))
	leader := s.leader()

	s.Expect(first.Stop(t.Context())).To(Succeed())
	s.Operator = second
	s.Push(2)
	s.expectJobsEver(3 + 2)
	s.Expect(s.leader()).NotTo(Or(BeEmpty(), Equal(leader)))
	s.Expect(second.Stop(t.Context())).To(Succeed())
	s.Expect(s.leader()).To(BeEmpty())
}

// leader is who holds the lease, and empty when it was released.
func (s *scaledJob) leader() string {
	s.t.Helper()
	return must.Get(operator.Leader(s.t.Context(), s.API, operator.Namespace, operator.DefaultLease))(s)
}

func TestProbesDoNotAskForRedis(t *testing.T) {
	t.Parallel()
	s := newScaledJobWithoutOperator(t)
	s.Expect(s.redis.Kill()).To(Succeed())
	s.create(sjtest.Polling(1))
	s.Operator = s.operate()
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	for _, path := range []string{"/healthz", "/readyz"} {
		s.Expect(operator.Get(t.Context(), s.Operator.ProbeURL()+path)).Error().NotTo(HaveOccurred())
	}
}

const profiles = "/debug/pprof/"

func TestNoProfilesAreServedUnlessAsked(t *testing.T) {
	t.Parallel()
	s := newScaledJobWithoutOperator(t)
	s.Operator = s.operate()
	s.Expect(s.Operator.Logs()).NotTo(ContainSubstring("pprof"))
	for _, url := range []string{s.Operator.ProbeURL(), strings.TrimSuffix(s.Operator.MetricsURL(), "/metrics")} {
		_, err := operator.Get(t.Context(), url+profiles)
		s.Expect(err).To(MatchError(ContainSubstring("answers 404")))
	}
}

// A profile that is being taken does not hold up the end of the operator.
func TestProfilesAreServedUntilTheOperatorEnds(t *testing.T) {
	t.Parallel()
	s := newScaledJobWithoutOperator(t)
	s.Operator = s.operate("--pprof-bind-address=127.0.0.1:0")
	started := regexp.MustCompile(`starting server.*"name": ?"pprof".*"addr": ?"(127\.0\.0\.1:\d+)"`)
	var url string
	s.Eventually(func() []string {
		found := started.FindStringSubmatch(s.Operator.Logs())
		if len(found) > 0 {
			url = "http://" + found[1] + profiles
		}
		return found
	}).Should(HaveLen(2))
	s.Expect(operator.Get(t.Context(), url+"goroutine?debug=1")).To(ContainSubstring("goroutine profile: total"))
	s.Expect(operator.Get(t.Context(), url+"heap")).NotTo(BeEmpty())

	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"trace?seconds=3600", nil))(s)
	tracing, err := http.DefaultClient.Do(request)
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = tracing.Body.Close() })
	s.Expect(s.Operator.Stop(t.Context())).To(Succeed())
	s.Expect(s.Operator.Logs()).NotTo(ContainSubstring("the operator ends"))
	s.Expect(operator.Get(t.Context(), url)).Error().To(MatchError(ContainSubstring("connection refused")))
}

// operateFor starts an operator for the namespace of the ScaledJob, as this account, which elects its leader with a
// Lease of this name.
func (a *account) operateFor(s *scaledJob, lease string) {
	a.t.Helper()
	a.grant(s.Namespace, a.rules("ClusterRole"))
	s.Operator = operator.New(a.t, operator.Options{
		Cluster: withoutOperator.Cluster, Config: a.access,
		Args: append(elect(a.namespace, lease), "--watch-namespaces="+s.Namespace, noFallback),
	})
	a.Eventually(operator.Leader).WithArguments(a.t.Context(), withoutOperator.API, a.namespace, lease).ShouldNot(BeEmpty())
}

func TestTwoInstallationsInOneNamespace(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.grant(a.namespace, a.rules("Role"))
	both := []*scaledJob{newScaledJobWithoutOperator(t), newScaledJobWithoutOperator(t)}
	a.operateFor(both[0], "blue")
	a.operateFor(both[1], "green")
	for _, s := range both {
		s.create(sjtest.Polling(sjtest.Never))
		s.awaitSubscription()
		s.Push(20)
	}
	for i, s := range both {
		s.expectJobsEver(20)
		s.Expect(s.log()).NotTo(BeEmpty())
		s.Expect(s.Operator.Logs()).NotTo(ContainSubstring(both[1-i].Namespace))
	}
}

// elect are the flags for an election by this Lease. It lasts as long as by default, so that a busy machine does not
// end operators whose work is what is tested.
func elect(namespace, lease string) []string {
	return []string{"--leader-elect", "--leader-election-namespace=" + namespace, "--leader-election-id=" + lease}
}

// startEarly starts an operator that can't be ready yet.
func startEarly(t *testing.T, access *rest.Config, args ...string) *operator.Operator {
	t.Helper()
	return operator.New(t, operator.Options{Config: access, Unready: true, Args: append([]string{noFallback}, args...)})
}

// awaitReady returns when the operator is ready.
func awaitReady(t *testing.T, early *operator.Operator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	NewWithT(t).Expect(early.AwaitReady(ctx)).To(Succeed())
}

// expectEnd stops the operator, which exits with 0.
func expectEnd(t *testing.T, early *operator.Operator) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	g.Expect(early.Stop(ctx)).To(Succeed())
	g.Expect(early.Logs()).NotTo(ContainSubstring("the operator ends"))
}

func TestOperatorStopsWhileItsCachesWait(t *testing.T) {
	t.Parallel()
	elects := []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace}
	for name, c := range map[string]struct {
		path string
		args []string
	}{
		"without leader election":           {"/scaledjobs", nil},
		"with leader election":              {"/scaledjobs", elects},
		"nothing is answered":               {"", elects},
		"the schema of the CRD is not read": {"/openapi/v3/apis/batch.miracle.dev/v1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := withoutOperator.Cluster.Config()
			proxy := inject.NewProxy(t, direct)
			held := proxy.Add(&inject.Rule{When: inject.Hold, Match: func(request *http.Request) bool {
				return strings.HasSuffix(request.URL.Path, c.path)
			}})
			early := startEarly(t, proxy.Config(direct), c.args...)
			NewWithT(t).Eventually(held.Held).ShouldNot(BeZero())
			expectEnd(t, early)
		})
	}
}
