// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/scene"
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
	s.create(scene.Polling(scene.Never), never, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = new(int32(2)) })
	s.awaitSubscription()
	s.Push(5)
	s.expectJobsEver(2)
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonAtMaxPending)
	s.Update(scene.Polling(scene.Never))

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

// Spare Jobs are there without a message, and for each message that is taken another one follows.
func TestSpareJobsAreThereBeforeMessages(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	busy := s.Queue + ":busy"
	s.create(scene.Polling(scene.Never), s.withQueues(scaledjobv1.Queue{}, scaledjobv1.Queue{Name: ":busy", Role: scaledjobv1.RoleInProgress}),
		func(spec *scaledjobv1.ScaledJobSpec) { spec.SpareReplicas = 2 })
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.awaitSubscription()
	s.Push(3)
	s.Eventually(s.jobsEver).Should(Equal(5))
	for range 3 {
		s.Expect(s.redis.Client().LMove(t.Context(), s.Queue, busy, "RIGHT", "LEFT").Err()).To(Succeed())
	}
	s.expectJobsEver(5)
	s.Expect(s.redis.Client().LPush(t.Context(), s.Queue, "another").Err()).To(Succeed())
	s.expectJobsEver(6)
}

// Messages that do not exceed activationThreshold wait for maxWaitSeconds, also while the operator does not run.
func TestMessagesBelowTheActivationThresholdWaitNoLongerThanTheySay(t *testing.T) {
	t.Parallel()
	s := newScaledJobWithoutOperator(t)
	const longest = 5
	s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.ActivationThreshold, spec.MaxWaitSeconds = 50, new(int32(longest))
	})
	s.Operator = s.operate()
	s.awaitSubscription()
	s.Push(2)
	pushed := time.Now()
	s.Eventually(s.Status).Should(HaveField("Queues", ConsistOf(HaveField("NonEmptySince", Not(BeNil())))))
	since := s.Status().Queues[0].NonEmptySince
	s.Expect(s.Operator.Kill()).To(Succeed())
	s.Operator = s.operate()
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.Expect(time.Since(since.Time)).To(BeNumerically(">=", longest*time.Second))
	s.Expect(time.Since(pushed)).To(BeNumerically("<", (longest+timeout.Seconds())*float64(time.Second)))
	s.Expect(s.Status().Queues[0].NonEmptySince).To(Equal(since))
}

// A place that one ScaledJob frees in a quota is for all that the quota has refused.
func TestAFreePlaceOfAQuotaIsForOthersToo(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.allowJobs(1)
	s.create(scene.Polling(scene.Never))
	s.awaitSubscription()
	s.Push(1)
	s.Eventually(s.jobsEver).Should(Equal(1))
	other := s.another("other")
	other.create(scene.Polling(scene.Never))
	other.Push(1)
	other.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonCreateRefused)
	other.Eventually(func() *metav1.Time { return other.Status().CreationPausedUntil }).ShouldNot(BeNil())
	paused := other.Status().CreationPausedUntil

	s.empty()
	s.Expect(s.API.Delete(t.Context(), s.job(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	other.Eventually(other.Status).Should(HaveField("ActiveJobs", BeEquivalentTo(1)))
	s.Expect(s.job().CreationTimestamp.Time).To(BeTemporally("<", paused.Time), "the Job came before the end of the pause")
}

// Two ScaledJobs of a namespace that name the same key get an event, and those of two namespaces get none.
func TestTwoScaledJobsOfOneKeyAreReported(t *testing.T) {
	t.Parallel()
	s, elsewhere := newScaledJob(t), newScaledJob(t)
	elsewhere.Queue = s.Queue
	s.create(scene.Polling(scene.Never))
	s.awaitSubscription()
	elsewhere.create(scene.Polling(scene.Never))
	other := s.another("other")
	other.Queue = s.Queue
	other.create(scene.Polling(scene.Never))
	s.Push(2)
	s.Eventually(s.jobsEver).Should(Equal(2+2), "both are scaled")
	other.Eventually(other.events).WithArguments("SharedQueue").Should(Equal(1))
	elsewhere.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)
	s.Expect(elsewhere.events("SharedQueue")).To(BeZero())
	s.Expect(s.events("SharedQueue")).To(BeZero(), "it was the first")
}
