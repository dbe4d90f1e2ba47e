// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

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
			s.create(onceByEvents, scene.AtMost(limit), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = int64(test.perJob) })
			s.Expect(s.Observe(t.Context(), s.Cluster.Config(), func() int { return limit })).To(Succeed())
			s.startWorkers(test.perJob)
			s.PushTogether(test.first)
			s.Eventually(s.jobsEver).Should(BeNumerically(">", 0))
			s.PushTogether(test.second)
			s.Eventually(s.Status).Should(BeDrained(test.jobs))
			s.expectJobsEver(test.jobs)
			s.Expect(s.Witness.CatchUp(t.Context())).To(Succeed())
			s.Expect(s.Witness.Verdict()).To(BeEmpty(), "no more than maxReplicas at a time")
			s.Expect(s.Status()).To(BeDrained(test.jobs))
		})
	}
}

// BeDrained matches the status of a ScaledJob whose Jobs have all succeeded,
// and for which nothing is left to do.
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
