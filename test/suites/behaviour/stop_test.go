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

// Jobs that end before the stop are replaced, which is the control: without the
// stop, those that end after it would be as well.
func TestCreationIsStoppedInMidRunAndGoesOn(t *testing.T) {
	t.Parallel()
	const limit = 3
	for name, test := range map[string]struct {
		stop, resume func(*scaledJob)
		reason       string // of the condition that tells of the stop
		desired      int    // while it lasts
	}{
		"suspended": {
			stop:    func(s *scaledJob) { s.edit(suspend(true)) },
			resume:  func(s *scaledJob) { s.edit(suspend(false)) },
			reason:  scaledjobv1.ReasonSuspended,
			desired: limit,
		},
		"limited to 0": {
			stop:    func(s *scaledJob) { s.edit(scene.AtMost(0)) },
			resume:  func(s *scaledJob) { s.edit(scene.AtMost(limit)) },
			reason:  scaledjobv1.ReasonAtMaxReplicas,
			desired: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			const messages, before = 9, limit + 2
			s.create(onceByEvents, scene.AtMost(limit))
			s.PushTogether(messages)
			for jobs := limit; jobs < before; jobs++ {
				s.Eventually(s.jobsEver).Should(Equal(jobs))
				s.remove()
				s.succeed(s.unfinishedJobs()[0])
			}
			s.Eventually(s.jobsEver).Should(Equal(before))

			test.stop(s)
			s.startWorkers(1)
			s.Eventually(s.Status).Should(And(
				HaveField("ActiveJobs", BeZero()),
				HaveField("SucceededJobs", BeEquivalentTo(before)),
				HaveField("QueueDepth", HaveValue(BeEquivalentTo(messages-before))),
				HaveField("DesiredJobs", HaveValue(BeEquivalentTo(test.desired))),
				HaveField("Conditions", ContainElement(And(
					HaveField("Status", metav1.ConditionTrue), HaveField("Reason", test.reason))))))
			s.expectJobsEver(before)

			test.resume(s)
			s.Eventually(s.Status).Should(BeDrained(messages))
			s.expectJobsEver(messages)
		})
	}
}

func suspend(suspended bool) scene.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = suspended }
}
