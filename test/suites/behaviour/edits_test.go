// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// The control is TestWitnessReportsARunningJobThatIsDeleted.
func TestEditsOfTheSpecDeleteNoRunningJob(t *testing.T) {
	t.Parallel()
	s := newWitnessedScaledJob(t)
	const jobs = 4
	s.create(onceByEvents)
	s.PushTogether(jobs)
	s.Eventually(s.jobNamesOfPods).Should(HaveLen(jobs))
	names := s.jobNames()
	original := s.Get().Spec

	for _, edit := range []map[string]any{
		{"jobTemplate": withImage("worker:2")},
		{"maxReplicas": 1},
		{"maxReplicas": 0},
		{"threshold": 100},
		{"activationThreshold": 100},
		{"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0},
		{"notifications": scaledjobv1.NotificationsDisabled},
		{"suspend": true},
		{"queueName": s.Namespace + ":empty"},
		{"redisAddress": "127.0.0.1:1"},
	} {
		s.edit(edit)
		s.Expect(s.jobNames()).To(ConsistOf(names), "after %v", edit)
		s.Expect(s.Status()).To(HaveField("ActiveJobs", BeEquivalentTo(jobs)), "after %v", edit)
	}

	// Undone but for the template, the edits leave a ScaledJob that works.
	s.edit(map[string]any{
		"maxReplicas": original.MaxReplicas, "threshold": original.Threshold, "activationThreshold": 0,
		"notifications": original.Notifications, "suspend": false,
		"queueName": original.QueueName, "redisAddress": original.RedisAddress,
	})
	job := s.startJob()
	s.Expect(job.Spec.Template.Spec.Containers).To(ConsistOf(HaveField("Image", "worker:2")))
	s.startWorkers(1)
	s.Eventually(s.Status).Should(And(HaveField("QueueDepth", HaveValue(BeZero())), HaveField("ActiveJobs", BeZero())))
	s.settle()
	s.Expect(s.created()).To(Equal(jobs + 1))
	s.Expect(s.watch.violations()).To(BeEmpty())
}

// withImage is the change of a jobTemplate that gives its container this image.
func withImage(image string) map[string]any {
	containers := []any{map[string]any{"name": "worker", "image": image}}
	return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}}
}
