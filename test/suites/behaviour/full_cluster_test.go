// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// makeReady lets the Pod of a pending Job become ready.
func (s *scaledJob) makeReady() {
	s.t.Helper()
	s.Eventually(s.pods).ShouldNot(BeEmpty())
	pending := s.pods()[0]
	s.Expect(cluster.Now(s.t.Context(), s.API, &pending, cluster.PodReadyAfter)).To(Succeed())
}

// As many Jobs as maxPendingReplicas have no ready Pod. Whether one becomes ready, ends or is deleted, the next
// follows.
func TestOnlySoManyJobsArePending(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never), never, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = new(int32(2)) })
	s.awaitSubscription()
	s.Push(5)
	s.expectJobsEver(2)
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonAtMaxPending)
	s.Update(sjtest.Polling(sjtest.Never))

	s.makeReady()
	s.Eventually(s.jobsEver).Should(Equal(3))
	s.Eventually(s.Status).Should(And(HaveField("ActiveJobs", BeEquivalentTo(3)), HaveField("PendingJobs", BeEquivalentTo(2))))
	for _, job := range s.jobs() {
		if job.Status.Ready == nil || *job.Status.Ready == 0 {
			s.Expect(s.API.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			break
		}
	}
	s.Eventually(s.jobsEver).Should(Equal(4))
	s.expectJobsEver(4)
}

// A place that one ScaledJob frees in a quota is for all that the quota has refused.
func TestAFreePlaceOfAQuotaIsForOthersToo(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.allowJobs(1)
	s.create(sjtest.Polling(sjtest.Never))
	s.awaitSubscription()
	s.Push(1)
	s.Eventually(s.jobsEver).Should(Equal(1))
	other := s.another("other")
	other.create(sjtest.Polling(sjtest.Never))
	other.Push(1)
	other.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonCreateRefused)
	other.Eventually(func() *metav1.Time { return other.Status().CreationPausedUntil }).ShouldNot(BeNil())
	paused := other.Status().CreationPausedUntil

	s.empty()
	s.Expect(s.API.Delete(t.Context(), s.job(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	other.Eventually(other.Status).Should(HaveField("ActiveJobs", BeEquivalentTo(1)))
	s.Expect(s.job().CreationTimestamp.Time).To(BeTemporally("<", paused.Time), "the Job came before the end of the pause")
}
