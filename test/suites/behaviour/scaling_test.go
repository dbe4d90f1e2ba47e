// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

func TestThirtyPushesAtThresholdTenGiveExactlyThreeJobs(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 10 })
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

func TestNoMoreThanMaxReplicasAreActive(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never), sjtest.AtMost(4))
	s.Push(50)
	s.expectJobsEver(4)
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonAtMaxReplicas)
	s.Expect(s.Status()).To(HaveField("DesiredJobs", HaveValue(BeEquivalentTo(4))))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonReconciled)

	s.Update(sjtest.AtMost(6))
	s.expectJobsEver(6)
	s.empty()
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionFalse, scaledjobv1.ReasonNotLimited)
	s.Expect(s.jobs()).To(HaveLen(6), "a running Job was deleted")
}

// Polling alone is enough.
func TestNotificationsCanBeDisabledAndEnabled(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never))
	s.awaitSubscription()
	s.Update(sjtest.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsDisabled })
	s.Eventually(s.Subscribers).Should(BeZero())
	s.AwaitReconciles(3)
	s.Push(1)
	s.Eventually(s.jobsEver).Should(Equal(1))
	s.Update(sjtest.Polling(sjtest.Never))
	s.awaitQuiet()
	s.Push(1)
	s.Consistently(s.jobsEver).Should(Equal(1))
	s.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsEnabled })
	s.expectJobsEver(2)
}

// The second burst comes while Jobs of the first one run. The control is
// TestJobThatEndsBeforeItsMessageIsGoneHasASuccessor: it shows that a Job too
// many is made and counted where a worker gives cause.
func TestQueueIsDrainedByExactlyTheJobsThatAreDue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ perJob, first, second, jobs int }{
		"one message to a Job":  {perJob: 1, first: 6, second: 14, jobs: 20},
		"ten messages to a Job": {perJob: 10, first: 90, second: 115, jobs: 9 + 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			const limit = 5
			s.create(onceByEvents, sjtest.AtMost(limit), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = int64(test.perJob) })
			s.Expect(s.Observe(t.Context(), s.Cluster.Config(), func() int { return limit })).To(Succeed())
			s.startWorkers(test.perJob)
			s.PushTogether(test.first)
			s.Eventually(s.jobsEver).Should(BeNumerically(">", 0))
			s.PushTogether(test.second)
			s.Eventually(s.Status).Should(BeDrained(test.jobs))
			s.expectJobsEver(test.jobs)
			s.Expect(s.Jobs.Sync(t.Context())).To(Succeed())
			s.Expect(s.Jobs.Violation()).To(BeEmpty(), "no more than maxReplicas at a time")
			s.Expect(s.Status()).To(BeDrained(test.jobs))
		})
	}
}

// BeDrained matches the status of a ScaledJob whose Jobs have all succeeded, and for which nothing is left to do.
func BeDrained(succeeded int) OmegaMatcher {
	return And(
		HaveField("QueueDepth", HaveValue(BeZero())),
		HaveField("DesiredJobs", HaveValue(BeZero())),
		HaveField("ActiveJobs", BeZero()),
		HaveField("PendingJobs", BeZero()),
		HaveField("SucceededJobs", BeEquivalentTo(succeeded)),
		HaveField("FailedJobs", BeZero()),
	)
}

func TestJobThatEndsBeforeItsMessageIsGoneHasASuccessor(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(onceByEvents)
	s.succeed(s.startJob())
	s.Eventually(s.jobsEver).Should(Equal(2))
	s.startWorkers(1)
	s.Eventually(s.Status).Should(BeDrained(2))
	s.expectJobsEver(2)
}

func suspend(suspended bool) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = suspended }
}

func TestEditsOfTheSpecDeleteNoRunningJob(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	const jobs = 4
	s.create(onceByEvents)
	s.PushTogether(jobs)
	s.Eventually(s.jobNamesOfPods).Should(HaveLen(jobs))
	names := s.jobNames()
	original := s.Get().Spec

	for i, edit := range []sjtest.Change{
		image("worker:2"),
		sjtest.AtMost(1),
		sjtest.AtMost(0),
		func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 100 },
		func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = 100 },
		func(spec *scaledjobv1.ScaledJobSpec) {
			spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = new(int32(0)), new(int32(0))
		},
		func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsDisabled },
		suspend(true),
		func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = s.Namespace + ":empty" },
		sjtest.At("127.0.0.1:1"),
	} {
		s.edit(edit)
		s.Expect(s.jobNames()).To(ConsistOf(names), "after edit %d", i)
		s.Expect(s.Status()).To(HaveField("ActiveJobs", BeEquivalentTo(jobs)), "after edit %d", i)
	}

	// Undone but for the template, the edits leave a ScaledJob that works.
	s.edit(func(spec *scaledjobv1.ScaledJobSpec) {
		template := spec.JobTemplate
		*spec = *original.DeepCopy()
		spec.JobTemplate = template
	})
	job := s.startJob()
	s.Expect(job.Spec.Template.Spec.Containers).To(ConsistOf(HaveField("Image", "worker:2")))
	s.startWorkers(1)
	s.Eventually(s.Status).Should(And(HaveField("QueueDepth", HaveValue(BeZero())), HaveField("ActiveJobs", BeZero())))
	s.expectJobsEver(jobs + 1)
}
