// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// sight is what is observed after some seconds, and what follows from it.
type sight struct {
	second             int
	inProgress, active int64
	probes             []int64
	known              int64
}

func TestMessagesInProgressThatNoJobHoldsAreOrphans(t *testing.T) {
	bubble.Each(t, map[string][]sight{
		"no Job at all":             {{0, 5, 0, nil, 0}, {29, 5, 0, nil, 0}, {30, 5, 0, nil, 5}, {31, 3, 0, nil, 3}},
		"a Job for each":            {{0, 5, 5, nil, 0}, {30, 5, 5, nil, 0}},
		"Jobs for some":             {{0, 5, 2, nil, 0}, {30, 5, 2, nil, 3}},
		"Jobs for more of them":     {{0, 5, 0, nil, 0}, {10, 5, 3, nil, 0}, {30, 5, 1, nil, 2}},
		"they become more":          {{0, 3, 0, nil, 0}, {30, 3, 0, nil, 3}, {40, 6, 0, nil, 3}, {60, 5, 0, nil, 3}, {90, 5, 0, nil, 5}},
		"their Jobs come and go":    {{0, 5, 0, nil, 0}, {30, 5, 0, nil, 5}, {40, 6, 4, nil, 5}, {60, 6, 0, nil, 5}},
		"a probe may hold one":      {{0, 5, 0, nil, 0}, {30, 5, 0, nil, 5}, {60, 5, 1, []int64{7}, 5}, {90, 5, 1, []int64{7}, 5}},
		"Jobs hold all, and probes": {{0, 5, 0, nil, 0}, {30, 5, 0, nil, 5}, {31, 5, 5, []int64{7}, 5}, {60, 5, 5, []int64{7}, 0}},
	}, func(_ *testing.T, g Gomega, sights []sight) {
		var o orphans
		for _, seen := range sights {
			before := o.known
			left := o.saw(seen.inProgress, seen.active, seen.probes, start.Add(time.Duration(seen.second)*time.Second))
			g.Expect(o.known).To(Equal(seen.known), "after %d s", seen.second)
			g.Expect(left).To(Equal(max(0, before-o.known)))
		}
	})
}

// After a restart, nothing is waited for if there were orphans before.
func TestOrphansAreFoundAgainAfterARestart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := ResumePause(MessagesOrphaned, start, start)
	g.Expect(c.Reason()).To(Equal(MessagesOrphaned))
	c.Saw(QueueState{InProgress: 5, Active: 2, At: start})
	g.Expect(c.Orphaned()).To(Equal(int64(3)))
	c.Saw(QueueState{InProgress: 9, Active: 0, At: start.Add(time.Second)})
	g.Expect(c.Orphaned()).To(Equal(int64(3)), "only the first time")
}

func TestAProbeIsKnownUntilItsEndWasSeen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var o orphans
	o.saw(5, 2, []int64{1, 2}, start)
	o.saw(5, 1, []int64{2}, start)
	g.Expect([]bool{o.isProbe(1), o.isProbe(2), o.isProbe(3)}).To(Equal([]bool{true, true, false}))
	o.saw(5, 0, nil, start)
	g.Expect([]bool{o.isProbe(1), o.isProbe(2)}).To(Equal([]bool{false, true}))
}

// Whether messages may have left although there are not fewer.
func TestMayHaveShrunk(t *testing.T) {
	t.Parallel()
	type state = QueueState
	later := start.Add(time.Second)
	for name, c := range map[string]struct {
		before, now state
		want        bool
	}{
		"notified, more":                    {state{Reliable: true, Depth: 7}, state{Reliable: true, Depth: 8}, false},
		"notified, arrived at an empty one": {state{Reliable: true}, state{Reliable: true, Depth: 3}, true},
		"notified, empty now":               {state{Reliable: true, Depth: 3}, state{Reliable: true}, true},
		"notified, came and went":           {state{Reliable: true}, state{Reliable: true, GrewAt: later}, true},
		"notified, still empty":             {state{Reliable: true}, state{Reliable: true}, false},
		"notified, grew from some":          {state{Reliable: true, Depth: 7}, state{Reliable: true, Depth: 7, GrewAt: later}, false},
		"another subscription":              {state{Reliable: true, Depth: 7}, state{Reliable: true, Depth: 7, Since: later}, true},
		"not notified before, more":         {state{Depth: 7}, state{Reliable: true, Depth: 8}, true},
		"not notified now, more":            {state{Reliable: true, Depth: 7}, state{Depth: 8}, true},
		"not notified, as many":             {state{Depth: 7}, state{Depth: 7}, false},
		"tracked, no change":                {state{Tracked: true, Depth: 7, Unchanged: start}, state{Tracked: true, Depth: 7, Unchanged: start}, false},
		"tracked, as many after a change":   {state{Tracked: true, Depth: 7, Unchanged: start}, state{Tracked: true, Depth: 7, Unchanged: later}, true},
		"tracked, not known":                {state{Tracked: true, Depth: 7}, state{Tracked: true, Depth: 7}, true},
		"tracked, one more":                 {state{Tracked: true, Depth: 7, Unchanged: start}, state{Tracked: true, Depth: 8, Unchanged: later}, false},
		"tracked, two more":                 {state{Tracked: true, Depth: 7, Unchanged: start}, state{Tracked: true, Depth: 9, Unchanged: start}, true},
		"tracked since now":                 {state{Depth: 7}, state{Tracked: true, Depth: 7, Unchanged: later}, false},
		"tracked no longer":                 {state{Tracked: true, Depth: 7, Unchanged: start}, state{Depth: 7}, false},
	} {
		NewWithT(t).Expect(c.now.mayHaveShrunk(c.before)).To(Equal(c.want), name)
	}
}

func TestHasShrunk(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before := QueueState{Depth: 7, Progress: "1-1", ShrunkAt: start}
	for _, c := range []struct {
		now  QueueState
		want bool
	}{
		{before, false},
		{QueueState{Depth: 8, Progress: "1-1", ShrunkAt: start}, false},
		{QueueState{Depth: 6, Progress: "1-1", ShrunkAt: start}, true},
		{QueueState{Depth: 7, Progress: "2-1", ShrunkAt: start}, true},
		{QueueState{Depth: 7, Progress: "1-1", ShrunkAt: start.Add(time.Second)}, true},
	} {
		g.Expect(c.now.hasShrunk(before)).To(Equal(c.want), "%+v", c.now)
	}
}

// An orphan that leaves shows that a Job for it was of use, which lets two more be created. The limit ends for the
// others as soon as all that are due may be created.
func TestOrphansAreNoneOnceAllTheirJobsMayBeCreated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ due, free, allowed, orphaned int64 }{{4, 0, 2, 4}, {3, 0, 2, 4}, {2, 0, 2, 0}, {3, 1, 3, 0}, {2, 2, 2, 4}} {
		l := newQueueWithJobs(t, 100)
		for _, inProgress := range []int64{5, 5, 4} {
			l.now = l.now.Add(OrphanedAfter)
			l.queue.InProgress = inProgress
			l.look()
		}
		l.Expect(l.creation.Orphaned()).To(Equal(int64(4)))
		allowed := l.creation.Allowed(c.due, c.free, l.now)
		l.Expect(allowed).To(Equal(c.allowed), "%d are due, %d of them for others", c.due, c.free)
		l.creation.Created(make([]int64, allowed), c.due, c.free, l.now)
		l.Expect(l.creation.Orphaned()).To(Equal(c.orphaned), "%d are due, %d of them for others", c.due, c.free)
	}
}
