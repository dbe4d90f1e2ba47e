// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// at is a wake and when it came.
type at struct {
	after time.Duration
	wake  Wake[string]
}

// bench takes wakes from a coalescer as they come.
type bench struct {
	*coalescer[string]
	begun time.Time
	wakes []at
}

// coalescing runs a test of a coalescer that knows the ids a and b.
func coalescing(t *testing.T, test func(g Gomega, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{coalescer: newCoalescer[string](productionPace(), func() {}), begun: time.Now()}
		b.add("a")
		b.add("b")
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-b.signal:
				}
				for wake, ok := b.take(); ok; wake, ok = b.take() {
					b.wakes = append(b.wakes, at{time.Since(b.begun), wake})
				}
			}
		}()
		test(NewWithT(t), b)
		b.stop()
		close(done)
	})
}

// after waits and returns the wakes so far.
func (b *bench) after(d time.Duration) []at {
	time.Sleep(d)
	synctest.Wait()
	return b.wakes
}

func wakeAt(ms int, id string, cause Cause) at {
	return at{time.Duration(ms) * time.Millisecond, Wake[string]{ID: id, Cause: cause}}
}

func TestTheFirstMarkWakesAtOnce(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.mark("a", Growth)
		g.Expect(b.after(0)).To(Equal([]at{wakeAt(0, "a", Growth)}))
		time.Sleep(25 * time.Millisecond)
		b.mark("a", Growth)
		g.Expect(b.after(0)).To(HaveExactElements(wakeAt(0, "a", Growth), wakeAt(25, "a", Growth)))
	})
}

func TestABurstIsSpacedOutAndItsEndIsKept(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		for range 60 {
			b.mark("a", Growth)
			time.Sleep(time.Millisecond)
		}
		g.Expect(b.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, "a", Growth), wakeAt(25, "a", Growth), wakeAt(50, "a", Growth), wakeAt(75, "a", Growth)))
	})
}

func TestIDsDoNotWaitForEachOther(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.mark("a", Growth)
		b.mark("b", Growth)
		g.Expect(b.after(0)).To(ConsistOf(wakeAt(0, "a", Growth), wakeAt(0, "b", Growth)))
	})
}

func TestGrowthIsSlowWhileNothingCanBeCreated(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.observed("a", false)
		for range 1500 {
			b.mark("a", Growth)
			time.Sleep(time.Millisecond)
		}
		g.Expect(b.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, "a", Growth), wakeAt(1000, "a", Growth), wakeAt(2000, "a", Growth)))
	})
}

func TestASlowWakeIsBroughtForward(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.observed("a", false)
		b.mark("a", Growth)
		b.mark("a", Growth)
		time.Sleep(10 * time.Millisecond)
		b.observed("a", true)
		g.Expect(b.after(time.Hour)).To(HaveExactElements(wakeAt(0, "a", Growth), wakeAt(25, "a", Growth)))
	})
	t.Run("at once", func(t *testing.T) {
		coalescing(t, func(g Gomega, b *bench) {
			b.observed("a", false)
			b.mark("a", Growth)
			b.mark("a", Growth)
			time.Sleep(300 * time.Millisecond)
			b.observed("a", true)
			b.observed("a", true)
			g.Expect(b.after(0)).To(HaveExactElements(wakeAt(0, "a", Growth), wakeAt(300, "a", Growth)))
		})
	})
}

func TestShrinkingWakesOnceASecond(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		for range 1500 {
			b.mark("a", Shrink)
			time.Sleep(time.Millisecond)
		}
		g.Expect(b.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, "a", Shrink), wakeAt(1000, "a", Shrink), wakeAt(2000, "a", Shrink)))
	})
}

func TestGrowthOvertakesShrinking(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.mark("a", Shrink)
		b.mark("a", Shrink)
		time.Sleep(100 * time.Millisecond)
		b.mark("a", Growth)
		b.mark("a", Shrink)
		g.Expect(b.after(time.Hour)).To(HaveExactElements(
			wakeAt(0, "a", Shrink), wakeAt(100, "a", Growth), wakeAt(1100, "a", Shrink)))
	})
}

func TestShrinkingMergesIntoGrowth(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.mark("a", Growth)
		b.mark("a", Growth)
		b.mark("a", Shrink)
		g.Expect(b.after(time.Hour)).To(HaveExactElements(wakeAt(0, "a", Growth), wakeAt(25, "a", Growth)))
	})
}

func TestConfirmationsAreNotSlowedDown(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.observed("a", false)
		b.mark("a", Growth)
		b.mark("a", Growth)
		b.mark("a", Confirmed)
		g.Expect(b.after(time.Hour)).To(HaveExactElements(wakeAt(0, "a", Growth), wakeAt(25, "a", Growth)))
	})
}

func TestManyMarksAreFewWakes(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		for range 1000 {
			for range 100 {
				b.mark("a", Growth)
			}
			time.Sleep(time.Millisecond)
		}
		g.Expect(len(b.after(time.Hour))).To(And(BeNumerically(">=", 40), BeNumerically("<=", 42)))
	})
}

func TestWakesMergeUntilTheyAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := newCoalescer[string](productionPace(), func() {})
		for id := range 3 {
			c.add(fmt.Sprint(id))
		}
		for range 1000 {
			c.mark("0", Shrink)
			c.mark("1", Confirmed)
			c.mark("2", Growth)
			time.Sleep(time.Second)
		}
		c.mark("0", Growth)
		time.Sleep(time.Hour)
		g.Expect(c.ready).To(HaveLen(3))
		for id, cause := range []Cause{Growth, Confirmed, Growth} {
			wake, ok := c.take()
			g.Expect(ok).To(BeTrue())
			g.Expect(wake).To(Equal(Wake[string]{ID: fmt.Sprint(id), Cause: cause}))
		}
		_, ok := c.take()
		g.Expect(ok).To(BeFalse())
	})
}

func TestAForgottenIDIsNotWoken(t *testing.T) {
	coalescing(t, func(g Gomega, b *bench) {
		b.mark("a", Growth)
		b.mark("a", Growth)
		synctest.Wait()
		b.remove("a")
		b.mark("a", Growth)
		b.observed("a", true)
		g.Expect(b.after(time.Hour)).To(HaveExactElements(wakeAt(0, "a", Growth)))
	})
	t.Run("though it was ready", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		c := newCoalescer[string](productionPace(), func() {})
		c.add("a")
		c.add("b")
		c.mark("a", Growth)
		c.mark("b", Growth)
		c.remove("a")
		wake, _ := c.take()
		g.Expect(wake).To(Equal(Wake[string]{ID: "b", Cause: Growth}))
		_, ok := c.take()
		g.Expect(ok).To(BeFalse())
	})
}
