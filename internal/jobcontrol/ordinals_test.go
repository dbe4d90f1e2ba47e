// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"math"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// ownedJobs returns active Jobs with these ordinals.
func ownedJobs(ordinals ...int64) *jobs.Owned {
	owned := &jobs.Owned{}
	for _, ordinal := range ordinals {
		job := jobOf(owner1, jobs.Name("emails", owner1, ordinal), "1")
		job.Annotations = map[string]string{scaledjobv1.AnnotationOrdinal: strconv.FormatInt(ordinal, 10)}
		owned.Active = append(owned.Active, job)
	}
	return owned
}

// upTo returns the ordinals in this range.
func upTo(from, to int64) (all []int64) {
	for ordinal := from; ordinal <= to; ordinal++ {
		all = append(all, ordinal)
	}
	return all
}

// newGate returns a Gate that needs no API server. looked returns one that has seen Jobs with these ordinals at
// startup.
func newGate() *Gate { return NewGate(nil, nil, nil, nil) }

func looked(ordinals ...int64) *Gate {
	gate := newGate()
	gate.Observe(owner1, ownedJobs(ordinals...))
	return gate
}

var start = time.Unix(1000, 0)

func free(gate *Gate, count int) []int64 {
	ordinals, _ := gate.Free(owner1, count)
	return ordinals
}

func TestFreeOrdinals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seen, inDoubt []int64
		count         int
		want          []int64
	}{
		"of a new ScaledJob": {count: 3, want: upTo(1, 3)},
		"none":               {count: 0},
		// Missing ordinals may be in flight: their creator was killed, or is still running.
		"the newest that is missing": {seen: []int64{2, 5, 6}, count: 1, want: []int64{4}},
		"missing ones first":         {seen: []int64{2, 5, 6}, count: 5, want: []int64{4, 3, 1, 7, 8}},
		// A create without an answer must not be sent as another Job.
		"none in doubt": {seen: []int64{1, 2, 5}, inDoubt: []int64{4, 7}, count: 3, want: []int64{3, 6, 8}},
	} {
		gate := looked(c.seen...)
		for _, ordinal := range c.inDoubt {
			gate.Lost(owner1, Unanswered{Ordinal: ordinal, Since: start})
		}
		for range 2 { // No Job is created in between.
			NewWithT(t).Expect(free(gate, c.count)).To(HaveExactElements(c.want), name)
		}
	}
}

// Each Job stores what its creator knew about the Jobs before it.
func TestOrdinalsOfJobsThatAreGoneAreNotMissing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owned := ownedJobs(3, 8, 9)
	owned.Active[1].Annotations[scaledjobv1.AnnotationOrdinalFloor] = "5"
	gate := newGate()
	gate.Observe(owner1, owned)
	g.Expect(free(gate, 4)).To(Equal([]int64{7, 6, 10, 11}))
	_, floor := gate.Free(owner1, 1)
	g.Expect(floor).To(Equal(int64(5)), "the next Jobs store the same floor")

	gate.Observe(owner1, ownedJobs(6, 7))
	_, floor = gate.Free(owner1, 1)
	g.Expect(floor).To(Equal(int64(9)), "or more")
}

// A Job in the cache may be an older one of the same name that this process sees only now.
func TestAJobThatIsShownHidesADoubtButDoesNotEndIt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked()
	gate.Lost(owner1, Unanswered{Ordinal: 1, Since: start})
	gate.Lost(owner1, Unanswered{Ordinal: 2, Since: start})

	g.Expect(gate.Observe(owner1, ownedJobs(1))).To(Equal([]Unanswered{{Ordinal: 2, Since: start}}),
		"1 is counted among the Jobs")
	_, floor := gate.Free(owner1, 1)
	g.Expect(floor).To(BeZero(), "the create may still be in flight")
	g.Expect(gate.Observe(owner1, ownedJobs())).To(HaveLen(2))
	gate.settle(owner1, 1)
	g.Expect(gate.Observe(owner1, ownedJobs())).To(Equal([]Unanswered{{Ordinal: 2, Since: start}}))
}

func TestUsedOrdinalsStaySo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked()
	gate.recordCreate(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)
	gate.Observe(owner1, ownedJobs(2, 3))
	gate.skip(owner1, 4)

	gate.Observe(owner1, ownedJobs())

	g.Expect(free(gate, 2)).To(Equal(upTo(5, 6)), "although all Jobs were deleted")
	g.Expect(gate.owners[owner1].ordinals.used).To(BeEmpty(), "ordinals that follow without a gap are not stored")
}

// Two operators that see the same Jobs use the same ordinals, so that the API server creates each Job once.
func TestCreatorsThatSeeTheSameClaimTheSame(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	old, fresh := looked(), newGate()
	for _, present := range [][]int64{{1}, {1, 2, 4}, {1, 2, 4, 9}, {2, 9, 10, 12}} {
		old.Observe(owner1, ownedJobs(present...))
	}
	fresh.Observe(owner1, ownedJobs(1, 2, 4, 9, 10, 12))
	g.Expect(free(fresh, 8)).To(Equal(free(old, 8)))
}

// Users who may create Jobs can forge one with an ordinal, the matching name, and a floor. The search for free ordinals
// must not overflow: it would loop over all numbers while it holds the lock of all ScaledJobs.
func TestForgedLargestOrdinalsDoNotStopTheOperator(t *testing.T) {
	t.Parallel()
	for _, ordinal := range []int64{math.MaxInt64 - 1, math.MaxInt64 - 2} {
		t.Run(strconv.FormatInt(ordinal, 10), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			owned := ownedJobs(ordinal)
			owned.Active[0].Annotations[scaledjobv1.AnnotationOrdinalFloor] = strconv.FormatInt(ordinal-1, 10)
			gate := newGate()
			gate.Observe(owner1, owned)
			claimed := make(chan []int64)
			go func() { claimed <- free(gate, 5) }()
			g.Eventually(claimed).WithTimeout(30 * time.Second).Should(Receive(HaveLen(5)))
		})
	}
}

// A forged ordinal must not make used ordinals look free in every reconcile.
func TestForgedLargestOrdinalDoesNotFreeUsedOnes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := newGate()
	owned := ownedJobs(1, 2, math.MaxInt64)
	owned.Active[2].Annotations[scaledjobv1.AnnotationOrdinalFloor] = strconv.FormatInt(math.MaxInt64-1, 10)
	for range 3 {
		gate.Observe(owner1, owned)
		claimed := free(gate, 2)
		for _, ordinal := range claimed {
			gate.skip(owner1, ordinal) // As if the name was taken.
		}
		gate.Observe(owner1, owned)
		g.Expect(free(gate, 2)).NotTo(ContainElements(claimed), "they are known to be taken")
	}
}

// A copy of a Job has its annotations, and any others that its creator adds.
func TestTheFloorOfACopyIsNotBelieved(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked(2)
	copied := ownedJobs(2)
	copied.Active[0].Name += "-copy"
	copied.Active[0].Annotations[scaledjobv1.AnnotationOrdinalFloor] = "1"
	gate.Observe(owner1, copied)
	g.Expect(free(gate, 1)).To(Equal([]int64{1}))

	copied.Active[0].Name = jobs.Name("emails", owner1, 2)
	gate.Observe(owner1, copied)
	g.Expect(free(gate, 1)).To(Equal([]int64{3}), "the ordinal of the original Job is used")
}
