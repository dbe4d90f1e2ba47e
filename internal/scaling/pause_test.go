// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

var start = time.Unix(1_000_000, 0)

// line is a queue and its Jobs in a test.
type line struct {
	*WithT
	creation Pause
	now      time.Time
	queue    QueueState
}

func newLine(t *testing.T, depth int64) *line {
	t.Helper()
	l := &line{WithT: NewWithT(t), now: start, queue: QueueState{Depth: depth, Heard: true, Since: start}}
	l.look()
	return l
}

func (l *line) look() { l.creation.Saw(l.queue) }

// run starts Jobs, and lets them finish after the queue was observed.
func (l *line) run(jobs int, failed bool) {
	for range jobs {
		l.queue.Newest++
		l.look()
		l.finish(Finish{Ordinal: l.queue.Newest, Failed: failed})
	}
}

func (l *line) finish(ends ...Finish) { l.creation.Finished(ends, l.now) }

// take removes a message, with the lower depth and the notification.
func (l *line) take() {
	l.queue.Depth--
	l.queue.ShrunkAt = l.now
	l.look()
}

// expectPause expects that creation is paused for this long from now, and lets that time pass.
func (l *line) expectPause(why PauseReason, long time.Duration) {
	until, holds := l.creation.Holds(l.now)
	l.Expect(holds).To(BeTrue(), "pauses")
	l.Expect(until.Sub(l.now)).To(Equal(long))
	l.Expect(l.creation.Reason(l.now)).To(Equal(why))
	l.now = until
	_, holds = l.creation.Holds(l.now)
	l.Expect(holds).To(BeFalse(), "still pauses")
	l.Expect(l.creation.Reason(l.now)).To(Equal(why), "the reason stays until there is progress")
}

func (l *line) expectNoPause() {
	_, holds := l.creation.Holds(l.now)
	l.Expect(holds).To(BeFalse(), "pauses")
	l.Expect(l.creation.Reason(l.now)).To(Equal(NotPaused))
}

func TestThreeFailuresInARowPauseForLongerEachTime(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100)
	l.run(2, true)
	l.take()
	l.run(1, false)
	l.take()
	l.run(2, true)
	l.expectNoPause()
	l.run(1, true)
	for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
		l.run(50, true) // However many Jobs fail, the pause stays the same.
		l.expectPause(JobsFailing, time.Duration(seconds)*time.Second)
		l.run(1, true)
	}
}

func TestSuccessAndAMessageTakenEndThePause(t *testing.T) {
	t.Parallel()
	for name, progress := range map[string]func(*line){
		"success first": func(l *line) { l.run(1, false); l.take() },
		"message first": func(l *line) { l.take(); l.run(1, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, 100)
			l.run(3, true)
			progress(l)
			l.expectNoPause()
			l.take()
			l.run(3, true)
			l.expectPause(JobsFailing, 10*time.Second)
		})
	}
}

func TestHalfOfAProgressEndsNothing(t *testing.T) {
	t.Parallel()
	for name, half := range map[string]func(*line){
		"success, and no message taken":  func(l *line) { l.run(1, false) },
		"messages taken by failing Jobs": func(l *line) { l.take(); l.run(1, true) },
		"more messages":                  func(l *line) { l.queue.Depth++; l.look(); l.run(1, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, 100)
			l.run(3, true)
			half(l)
			l.expectPause(JobsFailing, 10*time.Second)
		})
	}
}

func TestSuccessBeforeThePauseDoesNotEndIt(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100)
	l.run(1, false)
	l.take()
	l.run(3, true)
	l.take()
	l.expectPause(JobsFailing, 10*time.Second)
}

func TestJobsThatTakeNothingPause(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	l.run(2, false)
	l.expectNoPause()
	l.run(1, true)
	l.expectPause(NoProgress, 10*time.Second)
	l.run(1, false)
	l.expectPause(NoProgress, 20*time.Second)
	l.take()
	l.run(1, false)
	l.expectNoPause()
}

// The queue may grow: the pause depends only on messages that leave.
func TestJobsThatTakeNothingOfAGrowingQueuePause(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	for range 3 {
		l.queue.Depth++
		l.run(1, false)
	}
	l.expectPause(NoProgress, 10*time.Second)
}

// In each of these cases a message may have been taken, although the depth is the same.
func TestJobsThatMayHaveTakenSomethingDoNotPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		heard bool
		event func(*line)
	}{
		"a notification that a message left":       {true, func(l *line) { l.queue.ShrunkAt = l.queue.ShrunkAt.Add(time.Second) }},
		"the subscription is another":              {true, func(l *line) { l.queue.Since = l.queue.Since.Add(time.Second) }},
		"one observation failed, no notifications": {false, func(l *line) { l.creation.Unseen() }},
		"one observation missing":                  {true, nil},
		"another depth, no notifications":          {false, func(l *line) { l.queue.Depth++ }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, 7)
			l.queue.Heard = c.heard
			for range 10 {
				l.run(2, false)
				if c.event == nil {
					l.creation.Unseen()
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
}

// Jobs from before the last time that the queue shrank may have taken those messages.
func TestJobsFromBeforeAMessageWasTakenDoNotPause(t *testing.T) {
	t.Parallel()
	l := newLine(t, 20)
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
	t.Parallel()
	for name, grow := range map[string]func(*line){
		"seen":         func(l *line) { l.queue.Depth = 1 },
		"heard, taken": func(l *line) { l.queue.GrewAt = l.queue.GrewAt.Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, 0)
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
}

// Workers that wait at an empty queue take a message before the operator reads it. Without notifications that is not
// visible.
func TestJobsOfAnEmptyQueueDoNotPauseUnheard(t *testing.T) {
	t.Parallel()
	l := newLine(t, 0)
	l.queue.Heard = false
	l.run(10, false)
	l.expectNoPause()

	l = newLine(t, 0)
	for range 10 {
		l.run(2, false)
		l.queue.GrewAt = l.queue.GrewAt.Add(time.Second)
		l.look()
	}
	l.expectNoPause()
}

// A subscription that missed notifications is found out when the next one starts.
func TestNewSubscriptionEndsThePauseForNoProgress(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	l.run(3, false)
	l.queue.Since = l.queue.Since.Add(time.Second)
	l.look()
	l.expectNoPause()
}

// If several Jobs finish at the same time, the last ones count: a few failures among many successes do not pause
// creation.
func TestFailuresAmongSuccessesDoNotPause(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100)
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
	t.Parallel()
	l := newLine(t, 100)
	l.run(3, true)
	l.creation.Unseen()
	l.take()
	l.run(1, false)
	l.expectNoPause()
}

func TestRefusalsPause(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		l.creation.Refused(l.now)
		l.creation.Refused(l.now)
		l.expectPause(CreateRefused, pause)
	}
	l.creation.Accepted()
	l.expectNoPause()
	l.creation.Refused(l.now)
	l.expectPause(CreateRefused, 10*time.Second)
}

// A deleted Job may have made room in a quota. A failed attempt does not extend the pause.
func TestRoomIsAnOpportunityAfterARefusal(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	l.creation.Refused(l.now)
	for range 3 {
		l.creation.MadeRoom()
		_, holds := l.creation.Holds(l.now)
		l.Expect(holds).To(BeFalse())
		l.creation.Refused(l.now)
	}
	l.expectPause(CreateRefused, 10*time.Second)
}

// Neither kind of pause ends the other.
func TestRefusalsAndFruitlessJobsPauseByThemselves(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	l.creation.Refused(l.now)
	l.run(3, true)
	l.creation.MadeRoom()
	_, holds := l.creation.Holds(l.now)
	l.Expect(holds).To(BeTrue(), "room in a quota does not end a pause for failing Jobs")
	l.creation.Accepted()
	l.expectPause(JobsFailing, 10*time.Second)
	l.run(1, true)
	l.creation.Refused(l.now)
	l.take()
	l.run(1, false)
	l.expectPause(CreateRefused, 10*time.Second)
}

func TestTroubleIsForgottenAfterLong(t *testing.T) {
	t.Parallel()
	l := newLine(t, 100)
	l.run(3, true)
	l.expectPause(JobsFailing, 10*time.Second)
	l.run(1, true)
	l.expectPause(JobsFailing, 20*time.Second)
	l.now = l.now.Add(10 * time.Minute)
	l.expectNoPause()
	l.run(1, true)
	l.expectPause(JobsFailing, 10*time.Second)
}

// finishes returns Jobs that finished at these times, in seconds after the start; F marks a failure.
func finishes(outcomes string, at ...int) []Finish {
	var all []Finish
	for i, outcome := range outcomes {
		all = append(all, Finish{
			Ordinal: int64(i + 1), Failed: outcome == 'F', At: start.Add(time.Duration(at[i]) * time.Second),
		})
	}
	return all
}

func TestResume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was      PauseReason
		finishes []Finish
		// now and until are in seconds since the reason was reported. until is 0 if there is no pause.
		now, until int
	}{
		"nothing kept":             {was: JobsFailing, now: 4, until: 10},
		"within the pause":         {was: JobsFailing, finishes: finishes("FFFF", -2, -1, 3, 9), now: 9, until: 10},
		"after the pause":          {was: JobsFailing, finishes: finishes("FF", 3, 13), now: 14, until: 33},
		"after the next pause":     {was: JobsFailing, finishes: finishes("FFFF", 13, 14, 35, 36), now: 36, until: 75},
		"long before":              {was: JobsFailing, finishes: finishes("FFFF", -100, -80, -60, -20), now: 1, until: 10},
		"a success is no failure":  {was: JobsFailing, finishes: finishes("S", 13), now: 14},
		"no progress":              {was: NoProgress, finishes: finishes("SSSS", -6, 1, 2, 13), now: 14, until: 33},
		"by a clock that is ahead": {was: JobsFailing, finishes: finishes("FFF", 7200, 7200, 7200), now: 12, until: 32},
		"a refusal":                {was: CreateRefused, finishes: finishes("SS", 1, 2), now: 5},
		// The successful Jobs in between were pruned.
		"failures, and no pause": {was: "AtMaxReplicas", finishes: finishes("FFFF", 1, 2, 3, 4), now: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			now := start.Add(time.Duration(c.now) * time.Second)
			resumed := ResumePause(c.was, start, c.finishes, now)
			until, holds := resumed.Holds(now)
			g.Expect(holds).To(Equal(c.until != 0))
			if holds {
				g.Expect(resumed.Reason(now)).To(Equal(c.was))
				g.Expect(until).To(Equal(start.Add(time.Duration(c.until) * time.Second)))
			}
		})
	}
}

// Jobs that fail after a restart extend the pauses as before.
func TestResumedPausesGrow(t *testing.T) {
	t.Parallel()
	l := newLine(t, 7)
	l.creation = ResumePause(JobsFailing, l.now, nil, l.now)
	l.expectPause(JobsFailing, 10*time.Second)
	l.run(1, true)
	l.expectPause(JobsFailing, 20*time.Second)
}

// In any sequence, a pause lasts at most five minutes from its cause and has a reason, and three consecutive failures
// cause one.
func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Pause
		now := start
		queue := QueueState{Depth: 5, Heard: true}
		failures := 0
		for range 100 {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			event := rapid.IntRange(0, 5).Draw(t, "event")
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
			case 3:
				c.Refused(now)
			case 4:
				c.Accepted()
			case 5:
				c.MadeRoom()
			}
			until, holds := c.Holds(now)
			if holds && (until.Sub(now) > LongestPause || c.Reason(now) == NotPaused) {
				t.Fatalf("paused for %v because of %q", until.Sub(now), c.Reason(now))
			}
			if (event == 1 || event == 2) && failures >= 3 && !holds {
				t.Fatal("no pause after three consecutive failures")
			}
		}
	})
}
