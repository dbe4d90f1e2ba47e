// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// newLonelyScaledJob returns a ScaledJob without an operator, and with a Redis server of its own.
func newLonelyScaledJob(t *testing.T) *scaledJob {
	t.Helper()
	return newScaledJobIn(t, separate, redistest.New(t, redistest.Options{}))
}

// operate starts an operator for the namespace of the ScaledJob.
func (s *scaledJob) operate(args ...string) *operator.Operator {
	s.t.Helper()
	return operator.New(s.t, operator.Options{
		Cluster: s.Cluster,
		Args:    append([]string{"--watch-namespaces=" + s.Namespace, noFallback}, args...),
	})
}

func TestMessagesFromBeforeTheOperatorGetTheirJobs(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.Push(7)
	s.Consistently(s.jobsEver).Should(BeZero())
	s.Operator = s.operate()
	s.expectJobsEver(7)
}

func TestSecondReplicaStandsByAndTakesOver(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.create(scene.Polling(scene.Never))
	election := []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace}
	first := s.operate(election...)
	s.awaitSubscription()
	second := s.operate(election...)
	for _, path := range []string{"/healthz", "/readyz"} {
		_, err := operator.Get(t.Context(), second.ProbeURL()+path)
		s.Expect(err).NotTo(HaveOccurred())
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
	leader, err := operator.Leader(s.t.Context(), s.API, operator.Namespace, operator.DefaultLease)
	s.Expect(err).NotTo(HaveOccurred())
	return leader
}

func TestProbesDoNotAskForRedis(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.Expect(s.redis.Kill()).To(Succeed())
	s.create(scene.Polling(1))
	s.Operator = s.operate()
	s.expectCondition(scaledjobv1.ConditionQueueConnected, metav1.ConditionFalse, scaledjobv1.ReasonUnreachable)
	for _, path := range []string{"/healthz", "/readyz"} {
		_, err := operator.Get(t.Context(), s.Operator.ProbeURL()+path)
		s.Expect(err).NotTo(HaveOccurred())
	}
}

func TestOnlyTheNamespacesToWatchAreServed(t *testing.T) {
	t.Parallel()
	watched, other := newLonelyScaledJob(t), newLonelyScaledJob(t)
	watched.create(scene.Polling(1))
	other.create(scene.Polling(1))
	watched.Operator = watched.operate()
	watched.Push(3)
	other.Push(3)
	watched.expectJobsEver(3)
	other.Expect(other.jobsEver()).To(BeZero())
	other.Expect(other.Status()).To(HaveField("ObservedGeneration", BeZero()))
}

func TestSecureMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.Operator = s.operate("--metrics-secure=true")
	url := strings.Replace(s.Operator.MetricsURL(), "http:", "https:", 1)

	s.Eventually(s.metricsStatus).WithArguments(url, "").Should(Equal(http.StatusUnauthorized))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "scraper"}}
	s.Expect(s.API.Create(t.Context(), account)).To(Succeed())
	config, err := s.Cluster.ServiceAccountConfig(t.Context(), s.Namespace, account.Name)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.metricsStatus(url, config.BearerToken)).To(Equal(http.StatusForbidden))

	// Another account, since a refusal is remembered for a while.
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "reader"}}
	s.Expect(s.API.Create(t.Context(), reader)).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scaledjob-operator-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: reader.Name}},
	}
	s.Expect(s.API.Create(t.Context(), binding)).To(Succeed())
	config, err = s.Cluster.ServiceAccountConfig(t.Context(), s.Namespace, reader.Name)
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(s.metricsStatus).WithArguments(url, config.BearerToken).Should(Equal(http.StatusOK))
}

// metricsStatus is the status of the answer to a scrape with this token.
func (s *scaledJob) metricsStatus(url, token string) (int, error) {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is one that the operator made for itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
