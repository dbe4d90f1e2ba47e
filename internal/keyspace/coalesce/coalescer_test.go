// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

var a, b = ID{Name: "a"}, ID{Name: "b"}

func numbered(i int) ID { return ID{Name: fmt.Sprint(i)} }

// at is a wake and its time.
type at struct {
	after time.Duration
	wake  Due[ID]
}

// consumer receives the wakes of a coalescer.
type consumer struct {
	*Coalescer[ID]
	begun time.Time
	wakes []at
}

// coalescing runs a test of a coalescer with the ids a and x.
func coalescing(t *testing.T, test func(g Gomega, x *consumer)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &consumer{Coalescer: NewCoalescer[ID](), begun: time.Now()}
		x.Add(a)
		x.Add(b)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go x.run(ctx)
		test(NewWithT(t), x)
		x.Stop()
	})
}

// run takes the wakes until ctx is done.
func (x *consumer) run(ctx context.Context) {
	for {
		for w, ok := x.Take(); ok; w, ok = x.Take() {
			x.wakes = append(x.wakes, at{time.Since(x.begun), w})
		}
		select {
		case <-ctx.Done():
			return
		case <-x.Filled():
		}
	}
}

// after waits and returns the wakes so far.
func (x *consumer) after(d time.Duration) []at {
	time.Sleep(d)
	synctest.Wait()
	return x.wakes
}

func wakeAt(ms int, id ID, cause Cause) at {
	return at{time.Duration(ms) * time.Millisecond, Due[ID]{ID: id, Cause: cause}}
}

func TestTheFirstMarkWakesAtOnce(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.Mark(a, Growth)
		g.Expect(x.after(0)).To(Equal([]at{wakeAt(0, a, Growth)}))
		time.Sleep(25 * time.Millisecond)
		x.Mark(a, Growth)
		g.Expect(x.after(0)).To(HaveExactElements(wakeAt(0, a, Growth), wakeAt(25, a, Growth)))
	})
}

func TestABurstIsSpacedOutAndItsEndIsKept(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		for range 60 {
			x.Mark(a, Growth)
			time.Sleep(time.Millisecond)
		}
		g.Expect(x.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, a, Growth), wakeAt(25, a, Growth), wakeAt(50, a, Growth), wakeAt(75, a, Growth)))
	})
}

func TestIDsDoNotWaitForEachOther(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.Mark(a, Growth)
		x.Mark(b, Growth)
		g.Expect(x.after(0)).To(ConsistOf(wakeAt(0, a, Growth), wakeAt(0, b, Growth)))
	})
}

func TestGrowthIsSlowWhileNothingCanBeCreated(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.SetIdle(a, true)
		for range 1500 {
			x.Mark(a, Growth)
			time.Sleep(time.Millisecond)
		}
		g.Expect(x.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, a, Growth), wakeAt(1000, a, Growth), wakeAt(2000, a, Growth)))
	})
}

func TestASlowWakeIsBroughtForward(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.SetIdle(a, true)
		x.Mark(a, Growth)
		x.Mark(a, Growth)
		time.Sleep(10 * time.Millisecond)
		x.SetIdle(a, false)
		g.Expect(x.after(time.Hour)).To(HaveExactElements(wakeAt(0, a, Growth), wakeAt(25, a, Growth)))
	})
	t.Run("at once", func(t *testing.T) {
		coalescing(t, func(g Gomega, x *consumer) {
			x.SetIdle(a, true)
			x.Mark(a, Growth)
			x.Mark(a, Growth)
			time.Sleep(300 * time.Millisecond)
			x.SetIdle(a, false)
			x.SetIdle(a, false)
			g.Expect(x.after(0)).To(HaveExactElements(wakeAt(0, a, Growth), wakeAt(300, a, Growth)))
		})
	})
}

func TestShrinkingWakesOnceASecond(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		for range 1500 {
			x.Mark(a, Shrink)
			time.Sleep(time.Millisecond)
		}
		g.Expect(x.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, a, Shrink), wakeAt(1000, a, Shrink), wakeAt(2000, a, Shrink)))
	})
}

func TestGrowthOvertakesShrinking(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.Mark(a, Shrink)
		x.Mark(a, Shrink)
		time.Sleep(100 * time.Millisecond)
		x.Mark(a, Growth)
		x.Mark(a, Shrink)
		g.Expect(x.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, a, Shrink), wakeAt(100, a, Growth), wakeAt(1100, a, Shrink)))
	})
}

func TestShrinkingMergesIntoGrowth(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.Mark(a, Growth)
		x.Mark(a, Growth)
		x.Mark(a, Shrink)
		g.Expect(x.after(time.Hour)).To(HaveExactElements(wakeAt(0, a, Growth), wakeAt(25, a, Growth)))
	})
}

func TestConfirmationsAreNotSlowedDown(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.SetIdle(a, true)
		x.Mark(a, Growth)
		x.Mark(a, Growth)
		x.Mark(a, Confirmed)
		g.Expect(x.after(time.Hour)).To(HaveExactElements(wakeAt(0, a, Growth), wakeAt(25, a, Growth)))
	})
}

func TestManyMarksAreFewWakes(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		for range 1000 {
			for range 100 {
				x.Mark(a, Growth)
			}
			time.Sleep(time.Millisecond)
		}
		g.Expect(len(x.after(time.Hour))).To(And(BeNumerically(">=", 40), BeNumerically("<=", 42)))
	})
}

func TestWakesMergeUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := NewCoalescer[ID]()
		for id := range 3 {
			c.Add(numbered(id))
		}
		for range 1000 {
			c.Mark(numbered(0), Shrink)
			c.Mark(numbered(1), Confirmed)
			c.Mark(numbered(2), Growth)
			time.Sleep(time.Second)
		}
		c.Mark(numbered(0), Growth)
		time.Sleep(time.Hour)
		g.Expect(c.ready).To(HaveLen(3))
		for id, cause := range []Cause{Growth, Confirmed, Growth} {
			wake, ok := c.Take()
			g.Expect(ok).To(BeTrue())
			g.Expect(wake).To(Equal(Due[ID]{ID: numbered(id), Cause: cause}))
		}
		_, ok := c.Take()
		g.Expect(ok).To(BeFalse())
	})
}

func TestAForgottenIDIsNotWoken(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.Mark(a, Growth)
		x.Mark(a, Growth)
		synctest.Wait()
		x.Remove(a)
		x.Mark(a, Growth)
		x.SetIdle(a, false)
		g.Expect(x.after(time.Hour)).To(HaveExactElements(wakeAt(0, a, Growth)))
	})
	t.Run("though it was ready", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		c := NewCoalescer[ID]()
		c.Add(a)
		c.Add(b)
		c.Mark(a, Growth)
		c.Mark(b, Growth)
		c.Remove(a)
		wake, _ := c.Take()
		g.Expect(wake).To(Equal(Due[ID]{ID: b, Cause: Growth}))
		_, ok := c.Take()
		g.Expect(ok).To(BeFalse())
	})
}

func TestNothingIsWokenAfterStop(t *testing.T) {
	coalescing(t, func(g Gomega, x *consumer) {
		x.Mark(a, Growth)
		x.Mark(a, Growth)
		x.after(0)
		x.Stop()
		g.Expect(x.after(time.Hour)).To(HaveExactElements(wakeAt(0, a, Growth)))
	})
}

// For any sequence of marks: each mark is followed within a second by a wake that is at least as urgent, and the wakes
// of one id have the minimum distance.
func TestEveryMarkIsFollowedByAWake(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 60).Draw(rt, "milliseconds between marks")
		causes := rapid.SliceOfN(rapid.SampledFrom([]Cause{Shrink, Lost, Changed, Confirmed, Growth}), len(steps), len(steps)).Draw(rt, "causes")
		paces := rapid.SliceOfN(rapid.Bool(), len(steps), len(steps)).Draw(rt, "can create")
		var marks, wakes []at
		synctest.Test(t, func(t *testing.T) {
			x := &consumer{Coalescer: NewCoalescer[ID](), begun: time.Now()}
			x.Add(a)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			go x.run(ctx)
			for i, step := range steps {
				time.Sleep(time.Duration(step) * time.Millisecond)
				x.SetIdle(a, !paces[i])
				marks = append(marks, at{time.Since(x.begun), Due[ID]{ID: a, Cause: causes[i]}})
				x.Mark(a, causes[i])
				synctest.Wait()
			}
			wakes = x.after(time.Hour)
		})
		for _, mark := range marks {
			if !slices.ContainsFunc(wakes, func(w at) bool {
				return w.wake.Cause >= mark.wake.Cause && mark.after <= w.after && w.after <= mark.after+time.Second
			}) {
				rt.Fatalf("no wake follows %v: %v", mark, wakes)
			}
		}
		for i := 1; i < len(wakes); i++ {
			if wakes[i].after-wakes[i-1].after < spacing {
				rt.Fatalf("too close: %v", wakes)
			}
		}
	})
}

func TestCausesHaveNames(t *testing.T) {
	t.Parallel()
	var names []string
	for cause := None; cause <= Growth; cause++ {
		names = append(names, cause.String())
	}
	NewWithT(t).Expect(names).To(HaveExactElements("None", "Shrink", "Lost", "Changed", "Confirmed", "Growth"))
}
