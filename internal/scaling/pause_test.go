// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

var start = time.Unix(1_000_000, 0)

// queueWithJobs is a queue and its Jobs in a test.
type queueWithJobs struct {
	*WithT
	t        *testing.T
	creation Pause
	now      time.Time
	queue    QueueState
}

func newQueueWithJobs(t *testing.T, depth int64) *queueWithJobs {
	t.Helper()
	l := &queueWithJobs{WithT: NewWithT(t), t: t, now: start, queue: QueueState{Depth: depth, Reliable: true, Since: start}}
	l.look()
	return l
}

// inParallel is newQueueWithJobs for a test outside a bubble, in parallel with others.
func inParallel(t *testing.T, depth int64) *queueWithJobs {
	t.Helper()
	t.Parallel()
	return newQueueWithJobs(t, depth)
}

func (l *queueWithJobs) look() {
	l.queue.At = l.now
	l.creation.Saw(l.queue)
}

// run starts Jobs, and lets them finish after the queue was observed.
func (l *queueWithJobs) run(jobs int, failed bool) {
	for range jobs {
		l.queue.Newest++
		l.look()
		l.finish(Finish{Ordinal: l.queue.Newest, Failed: failed})
	}
}

func (l *queueWithJobs) finish(ends ...Finish) { l.creation.Finished(ends, l.now) }

// take removes a message, with the lower depth and the notification.
func (l *queueWithJobs) take() {
	l.queue.Depth--
	l.queue.ShrunkAt = l.now
	l.look()
}

func (l *queueWithJobs) arrive() {
	l.queue.Depth++
	l.look()
}

// probe creates the Jobs that are allowed of ten that are due, and returns how many.
func (l *queueWithJobs) probe() int64 {
	allowed := l.creation.Allowed(10, 10, l.now)
	l.creation.Created(make([]int64, allowed), 10, 10, l.now)
	return allowed
}

// expectPause expects that creation is paused for this long from now, lets that time pass, and creates the probe.
func (l *queueWithJobs) expectPause(why PauseReason, long time.Duration) {
	l.t.Helper()
	l.Expect(l.creation.Allowed(10, 10, l.now)).To(BeZero(), "pauses")
	until := l.creation.Until(l.now)
	l.Expect(until.Sub(l.now)).To(Equal(long))
	l.Expect(l.creation.Reason()).To(Equal(why))
	l.now = until
	l.Expect(l.probe()).To(Equal(int64(1)), "a probe")
	l.Expect(l.creation.Reason()).To(Equal(why), "the reason stays until there is progress")
}

func (l *queueWithJobs) expectNoPause() {
	l.t.Helper()
	l.Expect(l.creation.Reason()).To(Equal(NotPaused))
	l.Expect(l.creation.Allowed(10, 10, l.now)).To(Equal(int64(10)))
}

// A queue that stands still gets a probe every ten seconds at first, and then one every thirty.
func TestThreeFailuresInARowPause(t *testing.T) {
	l := inParallel(t, 100)
	l.run(2, true)
	l.take()
	l.run(1, false)
	l.take()
	l.run(2, true)
	l.expectNoPause()
	l.run(1, true)
	for _, seconds := range []int{10, 10, 10, 10, 10, 20, 30, 30, 30} {
		l.run(50, true) // However many Jobs fail, the pause stays the same.
		l.expectPause(JobsFailing, time.Duration(seconds)*time.Second)
		l.run(1, true)
	}
}

// Messages that arrive get probes at once, four in a row. Nothing is left for the time after.
func TestMessagesThatArriveGetProbes(t *testing.T) {
	l := inParallel(t, 100)
	l.run(3, true)
	l.expectPause(JobsFailing, 10*time.Second)
	l.run(1, true)
	for range 3 {
		l.Expect(l.probe()).To(BeZero())
		l.arrive()
		l.Expect(l.creation.Reacts(l.now)).To(BeTrue())
		l.Expect(l.probe()).To(Equal(int64(1)))
		l.run(1, true)
	}
	l.arrive()
	l.Expect(l.creation.Reacts(l.now)).To(BeFalse())
	l.expectPause(JobsFailing, 30*time.Second)
}

// As many probes as messages arrived, and not more than are left.
func TestManyMessagesThatArriveGetFourProbes(t *testing.T) {
	t.Parallel()
	for arrived, probes := range map[int64]int64{1: 1, 3: 3, 50: 4} {
		l := newQueueWithJobs(t, 100)
		l.run(3, true)
		l.queue.Depth += arrived
		l.look()
		l.Expect(l.probe()).To(Equal(probes), "for %d", arrived)
	}
}

// Each success lets two more be created, until all that are due have been.
func TestSuccessesDoubleTheJobs(t *testing.T) {
	bubble.Each(t, map[string]func(*queueWithJobs){
		"success first": func(l *queueWithJobs) { l.run(1, false); l.take() },
		"message first": func(l *queueWithJobs) { l.queue.Newest++; l.take(); l.finish(Finish{Ordinal: l.queue.Newest}) },
	}, func(t *testing.T, _ Gomega, progress func(*queueWithJobs)) {
		l := newQueueWithJobs(t, 100)
		l.run(3, true)
		l.expectPause(JobsFailing, 10*time.Second)
		for _, jobs := range []int{1, 2, 4} {
			for range jobs {
				progress(l)
			}
			l.Expect(l.probe()).To(Equal(int64(2 * jobs)))
			l.Expect(l.probe()).To(BeZero())
		}
		for range 8 {
			progress(l)
		}
		l.Expect(l.probe()).To(Equal(int64(10)))
		l.expectNoPause()
		l.run(3, true)
		l.expectPause(JobsFailing, 10*time.Second)
	})
}

// A pause depends only on successes and on messages that leave, and needs both after its cause to end.
func TestWhatPauses(t *testing.T) {
	type row struct {
		story func(*queueWithJobs)
		why   PauseReason
	}
	bubble.Each(t, map[string]row{
		"success, and no message taken":  {func(l *queueWithJobs) { l.run(3, true); l.run(1, false) }, NoProgress},
		"messages taken by failing Jobs": {func(l *queueWithJobs) { l.run(3, true); l.take(); l.run(1, true) }, JobsFailing},
		"success before the failures": {func(l *queueWithJobs) {
			l.run(1, false)
			l.take()
			l.run(3, true)
			l.take()
		}, JobsFailing},
		"success between failures, which take back what it has earned": {func(l *queueWithJobs) {
			l.run(3, true)
			l.take()
			l.run(1, false)
			l.take()
			l.run(3, true)
		}, JobsFailing},
		"nothing taken of a queue that grows": {func(l *queueWithJobs) {
			for range 3 {
				l.arrive()
				l.run(1, false)
			}
		}, NoProgress},
	}, func(t *testing.T, _ Gomega, c row) {
		l := newQueueWithJobs(t, 100)
		c.story(l)
		l.expectPause(c.why, 10*time.Second)
	})
}

func TestJobsThatTakeNothingPause(t *testing.T) {
	l := inParallel(t, 7)
	l.run(2, false)
	l.expectNoPause()
	l.run(1, true)
	l.expectPause(NoProgress, 10*time.Second)
	l.run(1, false)
	l.expectPause(NoProgress, 10*time.Second)
	for range 5 {
		l.run(1, false)
		l.take()
	}
	l.Expect(l.probe()).To(Equal(int64(10)))
	l.expectNoPause()
}

// In each of these cases a message may have been taken, although the depth is the same.
func TestJobsThatMayHaveTakenSomethingDoNotPause(t *testing.T) {
	type row struct {
		heard bool
		event func(*queueWithJobs)
	}
	bubble.Each(t, map[string]row{
		"a notification that a message left":       {true, func(l *queueWithJobs) { l.queue.ShrunkAt = l.queue.ShrunkAt.Add(time.Second) }},
		"the subscription is another":              {true, func(l *queueWithJobs) { l.queue.Since = l.queue.Since.Add(time.Second) }},
		"one observation failed, no notifications": {false, func(l *queueWithJobs) { l.creation.ReadFailed() }},
		"one observation missing":                  {true, nil},
		"another depth, no notifications":          {false, func(l *queueWithJobs) { l.queue.Depth++ }},
	}, func(t *testing.T, _ Gomega, c row) {
		l := newQueueWithJobs(t, 7)
		l.queue.Reliable = c.heard
		for range 10 {
			l.run(2, false)
			if c.event == nil {
				l.creation.ReadFailed()
				l.finish(Finish{Ordinal: l.queue.Newest + 1})
				l.queue.ShrunkAt = l.queue.ShrunkAt.Add(time.Second)
			} else {
				c.event(l)
			}
			l.look()
		}
		l.expectNoPause()
		l.run(3, false)
		l.expectPause(NoProgress, 10*time.Second)
	})
}

// Jobs from before the last time that the queue shrank may have taken those messages.
func TestJobsFromBeforeAMessageWasTakenDoNotPause(t *testing.T) {
	l := inParallel(t, 20)
	l.queue.Newest = 10
	l.take()
	for ordinal := range l.queue.Newest {
		l.look()
		l.finish(Finish{Ordinal: ordinal + 1})
	}
	l.expectNoPause()
}

// Jobs for minReplicas that finish immediately are also paced. The first message ends that.
func TestJobsOfAnEmptyQueuePauseUntilAMessageComes(t *testing.T) {
	bubble.Each(t, map[string]func(*queueWithJobs){
		"seen":         func(l *queueWithJobs) { l.queue.Depth = 1 },
		"heard, taken": func(l *queueWithJobs) { l.queue.GrewAt = l.queue.GrewAt.Add(time.Second) },
	}, func(t *testing.T, _ Gomega, grow func(*queueWithJobs)) {
		l := newQueueWithJobs(t, 0)
		l.run(3, false)
		l.expectPause(NoProgress, 10*time.Second)
		l.run(1, false)
		grow(l)
		l.look()
		l.expectNoPause()
		l.run(3, true)
		grow(l)
		l.look()
		l.expectPause(JobsFailing, 10*time.Second)
	})
}

// Jobs that end while the queue is empty at both ends are not due for a message. With notifications, one that came and
// went is no secret.
func TestJobsOfAnEmptyQueueOfASilentServerPause(t *testing.T) {
	l := inParallel(t, 0)
	l.queue.Reliable = false
	l.run(3, false)
	l.expectPause(NoProgress, 10*time.Second)

	l = newQueueWithJobs(t, 0)
	for range 10 {
		l.run(2, false)
		l.queue.GrewAt = l.queue.GrewAt.Add(time.Second)
		l.look()
	}
	l.expectNoPause()
}

// A server that tracks the keys says that they have changed, but not how. Without a change no message has left, nor if
// there is exactly one more.
func TestTrackingShowsThatNoMessageLeft(t *testing.T) {
	type row struct {
		event  func(*queueWithJobs)
		pauses bool
	}
	bubble.Each(t, map[string]row{
		"no change":              {func(*queueWithJobs) {}, true},
		"one more":               {func(l *queueWithJobs) { l.queue.Depth++; l.change() }, true},
		"two more":               {func(l *queueWithJobs) { l.queue.Depth += 2; l.change() }, false},
		"as many after a change": {(*queueWithJobs).change, false},
		"one fewer":              {func(l *queueWithJobs) { l.queue.Depth--; l.change() }, false},
		"a change reported":      {func(l *queueWithJobs) { l.queue.Unchanged = time.Time{} }, false},
		"not tracked":            {func(l *queueWithJobs) { l.queue.Tracked = false; l.queue.Depth++ }, false},
	}, func(t *testing.T, _ Gomega, c row) {
		l := newQueueWithJobs(t, 7)
		l.queue.Reliable, l.queue.Tracked, l.queue.Unchanged = false, true, start
		l.look()
		for range 3 {
			c.event(l)
			l.run(1, false)
		}
		l.Expect(l.creation.All()).To(Equal(c.pauses))
	})
}

// change is a change of the key that the server reports.
func (l *queueWithJobs) change() { l.queue.Unchanged = l.queue.Unchanged.Add(time.Second) }

// If several Jobs finish at the same time, the last ones count: a few failures among many successes do not pause
// creation.
func TestFailuresAmongSuccessesDoNotPause(t *testing.T) {
	l := inParallel(t, 100)
	l.queue.Newest = 20
	l.take()
	var ends []Finish
	for ordinal := range int64(20) {
		ends = append(ends, Finish{Ordinal: ordinal + 1, Failed: ordinal < 10})
	}
	l.finish(ends...)
	l.expectNoPause()
	l.finish(Finish{Ordinal: 21, Failed: true}, Finish{Ordinal: 22, Failed: true})
	l.expectNoPause()
	l.take()
	l.finish(Finish{Ordinal: 23, Failed: true})
	l.expectPause(JobsFailing, 10*time.Second)
}

// A single failed observation of the queue does not hide progress.
func TestProgressAroundAnUnseenQueueCounts(t *testing.T) {
	l := inParallel(t, 100)
	l.run(3, true)
	l.creation.ReadFailed()
	l.take()
	l.run(1, false)
	l.take()
	l.Expect(l.probe()).To(Equal(int64(2)))
}

func TestTroubleIsForgottenAfterLong(t *testing.T) {
	l := inParallel(t, 100)
	l.run(3, true)
	l.expectPause(JobsFailing, 10*time.Second)
	l.now = l.now.Add(9 * time.Minute)
	l.look()
	l.Expect(l.creation.Reason()).To(Equal(JobsFailing))
	l.now = l.now.Add(time.Minute)
	l.look()
	l.expectNoPause()
}

// Failed Jobs whose messages have left the queue are distinguished from others: they were there when one left, or
// follow such a Job without a success in between.
func TestConsumedMessages(t *testing.T) {
	l := inParallel(t, 100)
	fails := func(ordinal int64, consumed bool) {
		t.Helper()
		l.finish(Finish{Ordinal: ordinal, Failed: true})
		l.Expect(l.creation.Consumed()).To(Equal(consumed), "after Job %d", ordinal)
	}
	fails(1, false)
	l.queue.Newest = 5
	l.take()
	l.finish(Finish{Ordinal: 3})
	fails(6, false)
	fails(5, true)
	fails(7, true)
	l.finish(Finish{Ordinal: 8})
	fails(9, false)
}

// After a restart the next probe is due when the status says so, and none before.
func TestResume(t *testing.T) {
	type row struct {
		was PauseReason
		// due and next are in seconds from now; next is negative if creation is not paused.
		due, next int
	}
	bubble.Each(t, map[string]row{
		"during the pause":         {was: JobsFailing, due: 7, next: 7},
		"after the pause":          {was: JobsFailing, due: -100, next: 0},
		"no progress":              {was: NoProgress, due: 29, next: 29},
		"by a clock that is ahead": {was: JobsFailing, due: 7200, next: 30},
		"a refusal":                {was: CreateRefused, due: 7, next: -1},
		"no pause":                 {was: "AtMaxReplicas", due: 7, next: -1},
	}, func(t *testing.T, _ Gomega, c row) {
		l := newQueueWithJobs(t, 100)
		l.creation = ResumePause(c.was, l.now.Add(time.Duration(c.due)*time.Second), l.now)
		l.look()
		if c.next < 0 {
			l.expectNoPause()
			return
		}
		if c.next > 0 {
			l.expectPause(c.was, time.Duration(c.next)*time.Second)
		} else {
			l.Expect(l.probe()).To(Equal(int64(1)))
		}
		l.queue.Depth += 10
		l.look()
		l.expectPause(c.was, 30*time.Second)
	})
}

// In any sequence, the next probe is due within thirty seconds and for a reason, three consecutive failures cause a
// pause, and during one no more than four probes and one for each thirty seconds are created that no success has
// earned.
func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Pause
		began := start
		now := start
		queue := QueueState{Depth: 5, Reliable: true}
		failures, probes, earned := 0, int64(0), int64(0)
		for range 100 {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			queue.At = now
			event := rapid.IntRange(0, 3).Draw(t, "event")
			switch event {
			case 0:
				queue.Depth = rapid.Int64Range(0, 3).Draw(t, "depth")
				c.Saw(queue)
			case 1, 2:
				queue.Newest++
				failed := rapid.Bool().Draw(t, "failed")
				c.Finished([]Finish{{Ordinal: queue.Newest, Failed: failed, At: now}}, now)
				if failures++; !failed {
					failures = 0
				}
				if failures >= 3 && !c.All() {
					t.Fatal("no pause after three consecutive failures")
				}
				earned += 2
			default:
				allowed := c.Allowed(9, 9, now)
				if !c.All() {
					began, probes, earned = now, 0, 0
				} else if probes += allowed; probes > ProbeBurst+1+earned+int64(now.Sub(began)/ProbeInterval) {
					t.Fatalf("%d probes, and %d more were earned, in %v", probes, earned, now.Sub(began))
				}
				c.Created(make([]int64, allowed), 9, 9, now)
			}
			if until := c.Until(now); until.Sub(now) > ProbeInterval || c.Reason() == NotPaused && !until.IsZero() {
				t.Fatalf("the next probe is due in %v, because of %q", until.Sub(now), c.Reason())
			}
		}
	})
}

// Messages that turn out to be held by Jobs are no orphans that have left, so they earn nothing for others.
func TestOrphansThatAreNoneEarnNothing(t *testing.T) {
	l := inParallel(t, 100)
	see := func(active int64) {
		l.now = l.now.Add(OrphanedAfter)
		l.queue.InProgress, l.queue.Active = 5, active
		l.look()
	}
	see(0)
	see(0)
	l.Expect(l.creation.Orphaned()).To(Equal(int64(5)))
	see(5)
	see(5)
	l.Expect(l.creation.Orphaned()).To(BeZero())
	see(0)
	see(0)
	l.Expect(l.creation.Orphaned()).To(Equal(int64(5)))
	l.Expect(l.creation.Allowed(5, 0, l.now)).To(Equal(int64(1)), "a probe")
}
