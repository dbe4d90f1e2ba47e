// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Jobs end in the order opposite to that in which they started, so that keeping
// the ones that started last would keep others, as would one limit for both
// kinds. A failed Job has no completionTime: going by that would keep any.
func TestHistoryKeepsTheJobsThatEndedLast(t *testing.T) {
	t.Parallel()
	s := newWitnessedScaledJob(t)
	one := int32(1)
	s.create(onceByEvents, func(spec *scaledjobv1.ScaledJobSpec) {
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = &one, &one
	})
	var jobs []*batchv1.Job
	for range 6 {
		jobs = append(jobs, s.startJob())
		s.awaitNextSecond()
	}
	ends := []func(*batchv1.Job){s.failWorking, s.failWorking, s.workOff, s.failWorking, s.workOff, s.failWorking}
	for i, job := range slices.Backward(jobs) {
		ends[i](job)
		s.awaitNextSecond()
	}
	s.Expect(jobs[0].Status.CompletionTime).To(BeNil())
	s.Expect(jobs[0].Status.StartTime.Time).To(BeTemporally("<", jobs[1].Status.StartTime.Time))
	s.Expect(endCondition(jobs[0]).LastTransitionTime.Time).To(BeTemporally(">", endCondition(jobs[1]).LastTransitionTime.Time))

	kept := ConsistOf(jobs[0].Name, jobs[2].Name)
	s.Eventually(s.jobNames).Should(kept)
	s.Eventually(s.jobNamesOfPods).Should(kept)
	s.Eventually(s.Status).Should(And(
		HaveField("ActiveJobs", BeZero()),
		HaveField("SucceededJobs", BeEquivalentTo(1)),
		HaveField("FailedJobs", BeEquivalentTo(1))))
	s.settle()
	s.Expect(s.jobNames()).To(kept)
	s.Expect(s.created()).To(Equal(len(jobs)))
	s.Expect(s.watch.violations()).To(BeEmpty())
}

// awaitNextSecond lets the second pass: the API keeps times in whole ones.
func (s *scaledJob) awaitNextSecond() {
	s.t.Helper()
	s.Eventually(time.Now).Should(BeTemporally(">=", time.Now().Truncate(time.Second).Add(time.Second)))
}

func (s *scaledJob) jobNames() []string {
	s.t.Helper()
	names := []string{}
	for _, job := range s.ownedJobs() {
		names = append(names, job.Name)
	}
	return names
}

// jobNamesOfPods are the names of the Jobs that the Pods belong to.
func (s *scaledJob) jobNamesOfPods() []string {
	s.t.Helper()
	names := []string{}
	for _, pod := range s.pods() {
		names = append(names, pod.Labels[batchv1.JobNameLabel])
	}
	return names
}
