// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Seen to fail with --cascade=orphan: then the Jobs stay.
func TestDeletedScaledJobTakesItsJobsAndPodsAlongButNoOthers(t *testing.T) {
	t.Parallel()
	s := newWitnessedScaledJob(t)
	neighbour := s.another("neighbour")
	for _, each := range []*scaledJob{s, neighbour} {
		each.create(onceByEvents)
		each.workOff(each.startJob())
		each.PushTogether(2)
		each.Eventually(each.jobNamesOfPods).Should(HaveLen(3))
	}
	before := neighbour.jobNames()
	s.kubectl("delete", "scaledjob", s.Name)
	s.Eventually(s.ownedJobs).Should(BeEmpty())
	s.Eventually(s.pods).Should(BeEmpty())

	s.PushTogether(1)
	neighbour.startJob()
	neighbour.settle()
	s.Expect(s.ownedJobs()).To(BeEmpty())
	s.Expect(neighbour.jobNames()).To(And(ContainElements(before), HaveLen(len(before)+1)))
	s.Expect(neighbour.ownedJobs()).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))
	s.Expect(neighbour.pods()).To(HaveLen(len(before) + 1))
	s.Expect(neighbour.Status()).To(And(HaveField("ActiveJobs", BeEquivalentTo(3)), HaveField("SucceededJobs", BeEquivalentTo(1))))
}
