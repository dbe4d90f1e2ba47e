// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// lock is a lock that returns the set error after the set delay.
type lock struct {
	resourcelock.Interface
	took time.Duration
	err  error
}

func (l *lock) Identity() string { return "we" }

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.took)
	return l.err
}

var (
	ours     = resourcelock.LeaderElectionRecord{HolderIdentity: "we"}
	released = resourcelock.LeaderElectionRecord{}
	errAway  = errors.New("away")
)

var (
	defaults = Timing{LeaseDuration: LeaseDuration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod}
	// timings are valid timings that users may choose.
	timings = map[string]Timing{
		"default":                 defaults,
		"short":                   {LeaseDuration: 6 * time.Second, RenewDeadline: 5 * time.Second, RetryPeriod: 500 * time.Millisecond},
		"installation guide":      {LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second},
		"long":                    {LeaseDuration: 137 * time.Second, RenewDeadline: 107 * time.Second, RetryPeriod: 26 * time.Second},
		"renewed for nearly long": {LeaseDuration: 30 * time.Second, RenewDeadline: 29 * time.Second, RetryPeriod: 2 * time.Second},
		"renewed for short":       {LeaseDuration: 60 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second},
	}
)

func TestCertain(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	want := map[string]time.Duration{
		"default": 10 * time.Second, "short": 2500 * time.Millisecond, "installation guide": 2 * time.Second, "long": 107 * time.Second,
		"renewed for nearly long": 25 * time.Second, "renewed for short": 3 * time.Second,
	}
	for name, timing := range timings {
		g.Expect(timing.Certain()).To(Equal(want[name]), name)
		usable := timing.LeaseDuration - reserve
		g.Expect(timing.Certain()+min(LongestCreate, usable/2)).To(BeNumerically("<=", usable), name)
	}
}

func TestLeaseIsHeldForAsLongAsNobodyElseCanHaveIt(t *testing.T) {
	bubble.Each(t, timings, func(t *testing.T, g Gomega, timing Timing) {
		inner := &lock{took: time.Second / 2}
		lease := NewLease(inner, timing)
		g.Expect(lease.Held()).To(BeFalse(), "before the Lease was acquired")
		inner.err = errAway
		g.Expect(lease.Create(t.Context(), ours)).NotTo(Succeed())
		g.Expect(lease.Reached()).To(BeFalse())
		inner.err = nil

		g.Expect(lease.Create(t.Context(), ours)).To(Succeed())
		g.Expect(lease.Reached()).To(BeTrue())
		time.Sleep(timing.Certain() - inner.took - 1)
		g.Expect(lease.Held()).To(BeTrue())
		time.Sleep(time.Nanosecond)
		g.Expect(lease.Held()).To(BeFalse(), "the time counts from the start of the renewal")

		g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
		g.Expect(lease.Held()).To(BeTrue())
		inner.err = errAway
		time.Sleep(timing.Certain())
		g.Expect(lease.Update(t.Context(), ours)).To(MatchError(errAway))
		g.Expect(lease.Held()).To(BeFalse())
	})
}

func TestLeaseThatRanOutIsNotRenewed(t *testing.T) {
	bubble.Each(t, timings, func(t *testing.T, g Gomega, timing Timing) {
		lease := NewLease(&lock{}, timing)
		g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
		time.Sleep(timing.LeaseDuration)
		g.Expect(lease.Update(t.Context(), ours)).To(Succeed(), "before the Lease expires")
		time.Sleep(timing.LeaseDuration + 1)
		for range 2 {
			g.Expect(lease.Update(t.Context(), ours)).To(MatchError(errSuspended))
			g.Expect(lease.Held()).To(BeFalse())
		}
	})
}

// Creates may be in flight then, and other replicas would take a released Lease immediately.
func TestLeaseThatWasNotRenewedInTimeIsNotReleased(t *testing.T) {
	bubble.Each(t, timings, func(t *testing.T, g Gomega, timing Timing) {
		lease := NewLease(&lock{}, timing)
		g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
		time.Sleep(timing.Certain())
		g.Expect(lease.Update(t.Context(), released)).To(MatchError(errNotReleased))
		g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
		time.Sleep(timing.Certain() - 1)
		g.Expect(lease.Update(t.Context(), released)).To(Succeed())
		g.Expect(lease.Held()).To(BeFalse())
	})
}

// The monotonic clock does not advance while a machine is suspended.
func TestLeaseGoesByTheClockThatWentOn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lease := NewLease(&lock{}, defaults)
	lease.renewed = time.Now()
	suspended := time.Now().Round(0).Add(time.Minute) // Without a monotonic reading.
	age, known := lease.age(suspended)
	g.Expect(known).To(BeTrue())
	g.Expect(age).To(BeNumerically("~", time.Minute, time.Second))
}
