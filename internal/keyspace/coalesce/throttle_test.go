// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// served is a wake that was served, and its time.
type served struct {
	after time.Duration
	cause Cause
}

// server keeps the wakes of one id until they are due, as a work queue does, and then serves them.
type server struct {
	*Throttle
	begun  time.Time
	cause  Cause
	due    time.Time
	merged int
	wakes  []served
	// reads has the wakes, and the reads that something else has caused.
	reads []served
}

// throttling runs a test of a throttle with the id a.
func throttling(t *testing.T, test func(g Gomega, x *server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(NewWithT(t), newServer()) })
}

var a, b = ID{Name: "a"}, ID{Name: "b"}

func newServer() *server {
	x := &server{begun: time.Now()}
	x.Throttle = NewThrottle(x.deliver, func() { x.merged++ })
	x.Add(a)
	return x
}

func (x *server) deliver(w Wake) {
	if due := time.Now().Add(w.After); x.cause == None || due.Before(x.due) {
		x.due = due
	}
	x.cause = max(x.cause, w.Cause)
}

// pass lets time pass, and serves the wakes that become due.
func (x *server) pass(d time.Duration) {
	end := time.Now().Add(d)
	for x.cause != None && !x.due.After(end) {
		time.Sleep(time.Until(x.due))
		x.serve()
	}
	time.Sleep(time.Until(end))
}

// serve serves the wake now, also if it is not due.
func (x *server) serve() {
	x.wakes = append(x.wakes, served{time.Since(x.begun), x.cause})
	x.read(x.cause)
}

// read has the keys read for this cause.
func (x *server) read(cause Cause) {
	x.reads = append(x.reads, served{time.Since(x.begun), cause})
	x.cause = None
	x.Serve(a)
}

func servedAt(ms int, cause Cause) served { return served{time.Duration(ms) * time.Millisecond, cause} }

func TestABurstIsThrottledAndItsEndIsKept(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		for range 60 {
			x.Request(a, Growth)
			x.pass(time.Millisecond)
		}
		x.pass(time.Hour)
		g.Expect(x.wakes).To(HaveExactElements(servedAt(0, Growth), servedAt(25, Growth), servedAt(50, Growth), servedAt(75, Growth)))
	})
}

func TestGrowthIsThrottledMoreWhileNothingCanBeCreated(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		x.SetIdle(a, true)
		g.Expect(x.Idle(a)).To(BeTrue())
		x.Request(a, Growth)
		x.pass(0)
		x.Request(a, Growth)
		x.pass(300 * time.Millisecond)
		x.SetIdle(a, false)
		x.pass(0)
		x.SetIdle(a, true)
		x.Request(a, Growth)
		x.pass(time.Hour)
		g.Expect(x.wakes).To(HaveExactElements(servedAt(0, Growth), servedAt(300, Growth), servedAt(1300, Growth)))
	})
}

func TestAMoreUrgentMarkOvertakes(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		x.Request(a, Shrink)
		x.pass(0)
		x.Request(a, Shrink)
		x.pass(100 * time.Millisecond)
		x.Request(a, Growth)
		x.Request(a, Shrink)
		x.pass(time.Hour)
		g.Expect(x.wakes).To(HaveExactElements(servedAt(0, Shrink), servedAt(100, Growth)))
		x.Request(a, Shrink)
		x.Request(a, Growth)
		g.Expect(x.cause).To(Equal(Growth), "although it is due already")
	})
}

// However long a wake is not served, marks merge into it, and each is followed by a read.
func TestMarksMergeIntoAWakeThatIsNotServed(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		delivered := 0
		x.Throttle = NewThrottle(func(Wake) { delivered++ }, func() { /* not counted */ })
		x.Add(a)
		for range 1000 {
			x.Request(a, Growth)
			time.Sleep(time.Second)
		}
		g.Expect(delivered).To(Equal(1))
		x.Serve(a)
		x.Request(a, Growth)
		g.Expect(delivered).To(Equal(2))
	})
}

func TestEventsThatNeedNoWakeAreCounted(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		for _, step := range []struct {
			cause Cause
			want  int
			why   string
		}{
			{Growth, 0, "the first one wakes"},
			{Growth, 1, "nobody has served that yet"},
			{Shrink, 2, "whatever happened"},
			{Confirmed, 2, "this is no event"},
		} {
			x.Request(a, step.cause)
			g.Expect(x.merged).To(Equal(step.want), step.why)
		}
		x.pass(time.Hour)
		x.Request(a, Growth)
		g.Expect(x.merged).To(Equal(2), "all wakes are served")
		x.Request(b, Growth)
		g.Expect(x.merged).To(Equal(2), "an unknown id is not woken")
	})
}

func TestGrowthIsNotedUntilItIsServed(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		x.Request(a, Confirmed)
		x.Request(a, Shrink)
		g.Expect(x.Serve(a)).To(BeZero(), "neither cause is growth")
		first := time.Now()
		x.Request(a, Growth)
		time.Sleep(time.Second)
		x.Request(a, Growth)
		g.Expect(x.Serve(a)).To(Equal(first), "the first one since the last call")
		g.Expect(x.Serve(a)).To(BeZero())
		g.Expect(x.Serve(b)).To(BeZero())
	})
}

func TestAnIDThatWasRemovedIsNotWoken(t *testing.T) {
	throttling(t, func(g Gomega, x *server) {
		x.Request(a, Growth)
		x.pass(0)
		x.Remove(a)
		x.Request(a, Growth)
		x.SetIdle(a, true)
		g.Expect(x.Idle(a)).To(BeFalse())
		g.Expect(x.cause).To(Equal(None))
	})
}

// For any sequence of marks and reads: each mark is followed within a second by a wake that is at least as urgent, or
// by a read, and the wakes that were waited for have the minimum distance.
func TestEveryMarkIsServed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			wait        int
			cause       Cause
			idle, early bool
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				rapid.IntRange(0, 60).Draw(t, "milliseconds"), rapid.SampledFrom([]Cause{Shrink, Lost, Changed, Confirmed, Growth}).Draw(t, "cause"),
				rapid.Bool().Draw(t, "idle"), rapid.IntRange(0, 5).Draw(t, "early") == 0,
			}
		}), 1, 60).Draw(rt, "steps")
		var marks, reads, wakes []served
		var readsBefore []int // each of the marks
		synctest.Test(t, func(*testing.T) {
			x := newServer()
			for _, s := range steps {
				x.pass(time.Duration(s.wait) * time.Millisecond)
				x.SetIdle(a, s.idle)
				if s.early { // Something else has the keys read.
					x.read(Growth)
				}
				readsBefore = append(readsBefore, len(x.reads))
				marks = append(marks, served{time.Since(x.begun), s.cause})
				x.Request(a, s.cause)
			}
			x.pass(time.Hour)
			wakes, reads = x.wakes, x.reads
		})
		for i, mark := range marks {
			if !slices.ContainsFunc(reads[readsBefore[i]:], func(r served) bool {
				return r.cause >= mark.cause && r.after <= mark.after+time.Second
			}) {
				rt.Fatalf("nothing follows %v: %v %v", mark, wakes, reads)
			}
		}
		for i := 1; i < len(wakes); i++ {
			if wakes[i].after-wakes[i-1].after < spacing {
				rt.Fatalf("too close: %v", wakes)
			}
		}
	})
}

// BenchmarkWake measures the first mark of an ID until its wake is served, and that it begins and ends to be watched.
func BenchmarkWake(b *testing.B) {
	woken := 0
	t := NewThrottle(func(Wake) { woken++ }, func() { /* not counted */ })
	id := ID{Name: "a"}
	b.ReportAllocs()
	for b.Loop() {
		t.Add(id)
		t.Request(id, Growth)
		t.Serve(id)
		t.Remove(id)
	}
	if woken != b.N {
		b.Fatal("a wake is missing")
	}
}
