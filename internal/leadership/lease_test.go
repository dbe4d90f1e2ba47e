// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is one that answers as told, after some time.
type lock struct {
	resourcelock.Interface
	took time.Duration
	err  error
}

func (l *lock) Identity() string { return "we" }

func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.took)
	return l.err
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

func TestLeaseIsHeldForAsLongAsNobodyElseCanHaveIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		inner := &lock{took: time.Second}
		lease := NewLease(inner)
		g.Expect(lease.Held()).To(BeFalse(), "before it was ever taken")

		g.Expect(lease.Create(t.Context(), ours)).To(Succeed())
		time.Sleep(RenewDeadline - inner.took - 1)
		g.Expect(lease.Held()).To(BeTrue())
		time.Sleep(time.Nanosecond)
		g.Expect(lease.Held()).To(BeFalse(), "it counts from when the renewal was sent")

		g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
		g.Expect(lease.Held()).To(BeTrue())
		inner.err = errAway
		time.Sleep(RenewDeadline)
		g.Expect(lease.Update(t.Context(), ours)).To(MatchError(errAway))
		g.Expect(lease.Held()).To(BeFalse())
	})
}

func TestLeaseThatRanOutIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		lease := NewLease(&lock{})
		g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
		time.Sleep(LeaseDuration)
		g.Expect(lease.Update(t.Context(), ours)).To(Succeed(), "just in time")
		time.Sleep(LeaseDuration + 1)
		for range 2 {
			g.Expect(lease.Update(t.Context(), ours)).To(MatchError(errStoodStill))
			g.Expect(lease.Held()).To(BeFalse())
		}
	})
}

func TestLeaseThatWasReleasedIsNotHeld(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lease := NewLease(&lock{})
	g.Expect(lease.Update(t.Context(), ours)).To(Succeed())
	g.Expect(lease.Update(t.Context(), released)).To(Succeed())
	g.Expect(lease.Held()).To(BeFalse())
}

// The monotonic clock stands still while a machine is suspended.
func TestLeaseGoesByTheClockThatWentOn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lease := NewLease(&lock{})
	lease.renewed = time.Now()
	suspended := time.Now().Round(0).Add(time.Minute) // has no monotonic reading
	age, known := lease.age(suspended)
	g.Expect(known).To(BeTrue())
	g.Expect(age).To(BeNumerically("~", time.Minute, time.Second))
}
