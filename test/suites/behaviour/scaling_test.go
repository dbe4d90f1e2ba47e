// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

func TestThirtyPushesAtThresholdTenGiveExactlyThreeJobs(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 10 })
	s.awaitSubscription()
	s.Push(30)
	s.expectJobsEver(3)
	s.Expect(s.Status()).To(And(
		HaveField("QueueDepth", HaveValue(BeEquivalentTo(30))),
		HaveField("DesiredJobs", HaveValue(BeEquivalentTo(3))),
		HaveField("ActiveJobs", BeEquivalentTo(3)),
	))
	s.Push(1)
	s.expectJobsEver(4)
}

func TestMinReplicasAreActiveWithoutAnyMessage(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 2 })
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.succeed(s.job())
	s.expectJobsEver(3)
	s.Push(2)
	s.expectJobsEver(3)
	s.Push(1)
	s.expectJobsEver(4)
}

func TestNoMoreThanMaxReplicasAreActive(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), scene.AtMost(4))
	s.Push(50)
	s.expectJobsEver(4)
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonAtMaxReplicas)
	s.Expect(s.Status()).To(HaveField("DesiredJobs", HaveValue(BeEquivalentTo(4))))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)

	s.Update(scene.AtMost(6))
	s.expectJobsEver(6)
	s.empty()
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionFalse, scaledjobv1.ReasonNotLimited)
	s.Expect(s.jobs()).To(HaveLen(6), "a running Job was deleted")
}

func TestPollingAloneReachesTheSameState(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(1), scene.AtMost(5), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Threshold, spec.Notifications = 10, scaledjobv1.NotificationsDisabled
	})
	s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeZero())))
	s.Push(30)
	s.expectJobsEver(3)
	s.Push(70)
	s.expectJobsEver(5)
	s.Expect(s.Subscribers()).To(BeZero())
}

func TestNotificationsCanBeDisabledAndEnabled(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never))
	s.awaitSubscription()
	s.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsDisabled })
	s.Eventually(s.Subscribers).Should(BeZero())
	s.awaitQuiet()
	s.Push(1)
	s.Consistently(s.jobsEver).Should(BeZero())
	s.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsEnabled })
	s.expectJobsEver(1)
}

func TestRenamedQueueIsFollowed(t *testing.T) {
	t.Parallel()
	old := newScaledJob(t)
	old.create(scene.Polling(scene.Never))
	old.awaitSubscription()
	renamed := old.another(old.Name)
	renamed.Queue = old.Namespace + ":renamed"
	renamed.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = renamed.Queue })
	renamed.awaitSubscription()
	old.Eventually(old.Subscribers).Should(BeZero())
	old.Push(5)
	old.Consistently(old.jobsEver).Should(BeZero())
	renamed.Push(2)
	renamed.expectJobsEver(2)
	old.Expect(old.series()).To(BeEmpty())
}
