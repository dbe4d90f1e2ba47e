// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

func TestEditsOfTheSpecDeleteNoRunningJob(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	const jobs = 4
	s.create(onceByEvents)
	s.PushTogether(jobs)
	s.Eventually(s.jobNamesOfPods).Should(HaveLen(jobs))
	names := s.jobNames()
	original := s.Get().Spec

	for i, edit := range []scene.Change{
		image("worker:2"),
		scene.AtMost(1),
		scene.AtMost(0),
		func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 100 },
		func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = 100 },
		func(spec *scaledjobv1.ScaledJobSpec) {
			spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = new(int32(0)), new(int32(0))
		},
		func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsDisabled },
		suspend(true),
		func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = s.Namespace + ":empty" },
		scene.At("127.0.0.1:1"),
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
