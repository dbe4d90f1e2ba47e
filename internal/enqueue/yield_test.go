// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// wants is a reconcile that asks for a place for a status that has been wanted since then.
func (o *office) wants(key types.NamespacedName, since time.Time) (giveBack func()) {
	pass := o.Begin(key)
	defer pass.End(EndedFully)
	return pass.TakeSince(KindCondition, since)
}

// create creates a Job of the ScaledJob every 10 ms for this long.
func (o *office) create(key types.NamespacedName, long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		pass := o.Begin(key)
		giveBack := pass.Take(KindCreate)
		pass.End(EndedFully)
		giveBack()
	}
	synctest.Wait()
}

// A status waits while Jobs of other ScaledJobs are created, and no longer.
func TestAStatusWaitsForCreates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, o := NewWithT(t), newOffice(workers)
		o.create(named("a", 0), time.Millisecond)

		g.Expect(o.wants(named("a", 0), time.Now())).NotTo(BeNil(), "its own creates are over")
		g.Expect(o.wants(named("a", 1), time.Now())).To(BeNil())
		g.Expect(o.calls()).To(BeEmpty())
		<-time.After(quietTime)
		synctest.Wait()
		g.Expect(o.calls()).To(ConsistOf(named("a", 1)))
		g.Expect(o.wants(named("a", 1), time.Now())).NotTo(BeNil())
	})
}

// While Jobs are created all the time, statuses that have waited for long are written one after the other, and one that
// hangs holds up no other namespace.
func TestStatusesThatHaveWaitedForLongAreWrittenInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, o := NewWithT(t), newOffice(workers)
		creator := named("creator", 0)
		o.create(creator, time.Millisecond)
		began := time.Now()
		for _, key := range []types.NamespacedName{named("a", 0), named("b", 0), named("b", 1)} {
			g.Expect(o.wants(key, began)).To(BeNil())
		}

		o.create(creator, longestYield-10*time.Millisecond)
		g.Expect(o.calls()).To(BeEmpty())
		o.create(creator, 3*quietTime)
		g.Expect(o.calls()).To(ConsistOf(named("a", 0)))
		g.Expect(o.wants(named("a", 0), began)).NotTo(BeNil(), "it hangs")
		o.create(creator, shortWrite-2*quietTime)
		g.Expect(o.calls()).To(BeEmpty())
		o.create(creator, 4*quietTime)
		g.Expect(o.calls()).To(ConsistOf(named("b", 0)))
		written := o.wants(named("b", 0), began)
		g.Expect(written).NotTo(BeNil())
		g.Expect(o.calls()).To(BeEmpty())
		written()
		g.Expect(o.calls()).To(ConsistOf(named("b", 1)))
	})
}

// Who is called and does not come, because something else of it hangs, holds up others only for a turn.
func TestAStatusThatDoesNotComeLosesItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, o := NewWithT(t), newOffice(workers)
		creator := named("creator", 0)
		o.create(creator, time.Millisecond)
		began := time.Now()
		for _, key := range []types.NamespacedName{named("a", 0), named("b", 0)} {
			g.Expect(o.wants(key, began)).To(BeNil())
		}

		o.create(creator, longestYield+shortWrite-4*quietTime)
		g.Expect(o.calls()).To(ConsistOf(named("a", 0)))
		o.create(creator, 6*quietTime)
		g.Expect(o.calls()).To(ConsistOf(named("b", 0)))
		g.Expect(o.wants(named("b", 0), began)).NotTo(BeNil())
	})
}

// Statuses that do not yield, because their own Jobs were the last ones, take no turn of others.
func TestStatusesOfCreatorsTakeNoTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, o := NewWithT(t), newOffice(workers)
		creator, waiting := named("creator", 0), named("a", 0)
		o.create(creator, time.Millisecond)
		began := time.Now()
		g.Expect(o.wants(waiting, began)).To(BeNil())

		var calls []types.NamespacedName
		end := func() { /* nothing is being written yet */ }
		for time.Since(began) < longestYield+shortWrite {
			o.create(creator, 10*time.Millisecond)
			next := o.wants(creator, time.Now())
			g.Expect(next).NotTo(BeNil())
			end()
			end = next
			calls = append(calls, o.calls()...)
		}
		g.Expect(calls).To(ContainElement(waiting))
	})
}
