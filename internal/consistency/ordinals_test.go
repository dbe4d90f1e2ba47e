// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// censusOf is that of active Jobs with these ordinals.
func censusOf(ordinals ...int64) *jobs.Census {
	census := &jobs.Census{}
	for _, ordinal := range ordinals {
		job := jobOf(owner1, jobs.Name("emails", owner1, ordinal), "1")
		job.Annotations = map[string]string{scaledjobv1.AnnotationOrdinal: strconv.FormatInt(ordinal, 10)}
		census.Active = append(census.Active, job)
	}
	return census
}

// upTo are the ordinals from one to another.
func upTo(from, to int64) (all []int64) {
	for ordinal := from; ordinal <= to; ordinal++ {
		all = append(all, ordinal)
	}
	return all
}

// newGate is a gate that needs no API server, and looked is one that has seen Jobs with these ordinals at the start.
func newGate() *Gate { return NewGate(nil, nil, nil, nil) }

func looked(ordinals ...int64) *Gate {
	gate := newGate()
	gate.Saw(owner1, censusOf(ordinals...), start)
	return gate
}

var start = time.Unix(1000, 0)

func TestFreeOrdinalsOfANewScaledJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked()
	g.Expect(gate.Free(owner1, 0)).To(BeEmpty())
	g.Expect(gate.Free(owner1, 3)).To(Equal(upTo(1, 3)))
	g.Expect(gate.Free(owner1, 3)).To(Equal(upTo(1, 3)), "nothing was created")
}

// Those that are missing may be under way: whoever sent them was killed, or is still at work.
func TestMissingOrdinalsComeFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked(2, 5, 6)
	g.Expect(gate.Free(owner1, 1)).To(Equal([]int64{4}), "the newest")
	g.Expect(gate.Free(owner1, 5)).To(Equal([]int64{4, 3, 1, 7, 8}))
}

// An operator that was killed sent no more than one pass does; a Job from long before is gone.
func TestOrdinalsFarBelowTheHighestAreNotMissing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked(3, 1000)
	g.Expect(gate.Free(owner1, inheritable)).To(ConsistOf(append(upTo(1001-inheritable, 999), 1001)))
}

func TestMissingOrdinalsAreGivenUpOnceTheyCannotBeUnderWay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked(2, 5)
	gate.Saw(owner1, censusOf(2, 5), start.Add(forgetAfter))
	g.Expect(gate.Free(owner1, 1)).To(Equal([]int64{4}))
	gate.Saw(owner1, censusOf(2, 5), start.Add(forgetAfter+1))
	g.Expect(gate.Free(owner1, 2)).To(Equal(upTo(6, 7)))
}

// Another operator may send creates at any time.
func TestOrdinalsMissingSinceTheStartAreNeverGivenUp(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked(1, 2)
	gate.Saw(owner1, censusOf(1, 2, 5), start.Add(10*forgetAfter))
	g.Expect(gate.Free(owner1, 3)).To(Equal([]int64{4, 3, 6}))
}

// A create that is in doubt must not be sent as another one, nor be forgotten.
func TestOrdinalsInDoubtAreNotFree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked(2, 5)
	late := start.Add(forgetAfter)
	gate.Lost(owner1, Unanswered{Ordinal: 4, Since: late})
	gate.Lost(owner1, Unanswered{Ordinal: 7, Since: late})
	g.Expect(gate.Free(owner1, 4)).To(Equal([]int64{3, 1, 6, 8}))

	later := late.Add(time.Second)
	g.Expect(gate.Saw(owner1, censusOf(2, 5), later)).To(HaveLen(2), "though others that were missing at the start are given up by now")
	g.Expect(gate.Saw(owner1, censusOf(2, 4, 5, 7), later)).To(BeEmpty())
	g.Expect(gate.Free(owner1, 2)).To(Equal([]int64{6, 8}))
}

func TestUsedOrdinalsStaySo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked()
	gate.Wrote(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)
	gate.Saw(owner1, censusOf(2, 3), start)
	gate.Skip(owner1, 4)

	gate.Saw(owner1, censusOf(), start)

	g.Expect(gate.Free(owner1, 2)).To(Equal(upTo(5, 6)), "though all Jobs are gone")
	g.Expect(gate.owners[owner1].ordinals.used).To(BeEmpty(), "what follows without a gap is not kept")
}

// The API server said no: nothing was created, and the ordinal is as good as any.
func TestRefusedOrdinalsAreFree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := looked()
	gate.Lost(owner1, Unanswered{Ordinal: 1, Since: start})
	gate.Answered(owner1, 1)
	gate.Saw(owner1, censusOf(2, 3), start)
	g.Expect(gate.Free(owner1, 2)).To(Equal([]int64{1, 4}))
}

// Two operators that see the same Jobs claim the same ordinals, so that the API server has the one or the other create each Job.
func TestCreatorsThatSeeTheSameClaimTheSame(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	old, fresh := looked(), newGate()
	for _, present := range [][]int64{{1}, {1, 2, 4}, {1, 2, 4, 9}, {2, 9, 10, 12}} {
		old.Saw(owner1, censusOf(present...), start)
	}
	fresh.Saw(owner1, censusOf(1, 2, 4, 9, 10, 12), start)
	g.Expect(fresh.Free(owner1, 8)).To(Equal(old.Free(owner1, 8)))
}
