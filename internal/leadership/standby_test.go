// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// stored is a Lease as the API server stores it.
type stored struct {
	mu      sync.Mutex
	record  resourcelock.LeaderElectionRecord
	exists  bool
	version int
	reads   int
	used    *sync.Cond // after each read and write
}

func newStored() *stored {
	s := &stored{}
	s.used = sync.NewCond(&s.mu)
	return s
}

// await returns after so many further writes, and so many further reads.
func (s *stored) await(writes, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, reads = s.version+writes, s.reads+reads
	for s.version < writes || s.reads < reads {
		s.used.Wait()
	}
}

// change changes the Lease, or what a replica may do with it.
func (s *stored) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// held returns the Lease as it is stored now.
func (s *stored) held() resourcelock.LeaderElectionRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// of is the lock of a replica on the Lease.
func (s *stored) of(identity string) *replica { return &replica{stored: s, identity: identity} }

// replica writes the Lease only if it has not changed since the replica last read or wrote it.
type replica struct {
	resourcelock.Interface
	*stored

	identity string
	seen     int
	away     bool
	// loses is how many of the next writes are carried out without an answer.
	loses int
	// refuses is true if renewals fail, and other requests do not.
	refuses bool
}

func (r *replica) Identity() string { return r.identity }

func (r *replica) Describe() string { return "the lease" }

func (r *replica) RecordEvent(string) { /* nobody reads them */ }

func (r *replica) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	r.used.Broadcast()
	switch {
	case r.away:
		return nil, nil, errAway
	case !r.exists:
		return nil, nil, apierrors.NewNotFound(leases, "lease")
	}
	r.seen = r.version
	record := r.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (r *replica) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exists {
		return apierrors.NewAlreadyExists(leases, "lease")
	}
	return r.store(record)
}

func (r *replica) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.exists || r.seen != r.version {
		return apierrors.NewConflict(leases, "lease", errors.New("changed"))
	}
	return r.store(record)
}

// store is called with the lock held.
func (r *replica) store(record resourcelock.LeaderElectionRecord) error {
	if r.away || r.refuses && record.HolderIdentity == r.identity {
		return errAway
	}
	r.version++
	r.used.Broadcast()
	r.record, r.exists = record, true
	if r.loses > 0 {
		r.loses--
		return errAway
	}
	r.seen = r.version
	return nil
}

// candidate takes part in an election of client-go until stop, or until kill, after which it does nothing more. After
// refuse, its renewals fail.
type candidate struct {
	leads, ended       chan time.Time
	stop, kill, refuse func()
}

func (s *stored) stand(t *testing.T, identity string, timing Timing) *candidate {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	lock := s.of(identity)
	kill := func() {
		lock.change(func() { lock.away = true })
		stop()
	}
	refuse := func() { lock.change(func() { lock.refuses = true }) }
	c := &candidate{leads: make(chan time.Time, 1), ended: make(chan time.Time, 1), stop: stop, kill: kill, refuse: refuse}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: NewLease(lock, timing), LeaseDuration: timing.LeaseDuration, RenewDeadline: timing.RenewDeadline,
		RetryPeriod: timing.RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { c.leads <- time.Now() },
			OnStoppedLeading: func() { c.ended <- time.Now() },
		},
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	go elector.Run(ctx)
	t.Cleanup(stop)
	return c
}

func TestStandbyLeadsAsSoonAsItMay(t *testing.T) {
	bubble.Each(t, timings, func(t *testing.T, g Gomega, timing Timing) {
		lease := newStored()
		first := lease.stand(t, "first", timing)
		<-first.leads
		second, third := lease.stand(t, "second", timing), lease.stand(t, "third", timing)
		lease.await(100, 100)
		g.Expect(second.leads).To(BeEmpty())

		renewed := lease.held().RenewTime.Time
		first.kill()
		var began time.Time
		next, other := second, third
		select {
		case began = <-second.leads:
		case began = <-third.leads:
			next, other = third, second
		}
		g.Expect(began.Sub(renewed)).To(And(
			BeNumerically(">=", timing.LeaseDuration), BeNumerically("<=", timing.LeaseDuration+StandbyInterval)))
		g.Expect(lease.held().AcquireTime.Time).To(Equal(began), "not when it began to wait")
		g.Expect(lease.held().RenewTime.Time).To(Equal(began))
		lease.await(100, 100)
		g.Expect(other.leads).To(BeEmpty(), "one leads")
		g.Expect(lease.held().AcquireTime.Time).To(Equal(began), "renewals keep it")

		stopped := time.Now()
		next.stop()
		began = <-other.leads
		g.Expect(began.Sub(stopped)).To(BeNumerically("<=", StandbyInterval))
	})
}

// client-go ends such a leader, and would release its Lease, while creates may be in flight.
func TestLeaderThatCannotRenewEndsAndKeepsTheLease(t *testing.T) {
	bubble.Each(t, timings, func(t *testing.T, g Gomega, timing Timing) {
		lease := newStored()
		leader := lease.stand(t, "first", timing)
		<-leader.leads
		lease.await(2, 0)
		last := lease.held()
		leader.refuse()
		g.Expect((<-leader.ended).Sub(last.RenewTime.Time)).To(BeNumerically("~", timing.RenewDeadline+timing.RetryPeriod, time.Millisecond))
		g.Expect(lease.held()).To(Equal(last))
	})
}

// The interval bounds the requests of a standby.
func TestStandbyReadsTheLeaseAtItsInterval(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		lease := newStored()
		first := lease.stand(t, "first", defaults)
		<-first.leads
		lease.stand(t, "second", defaults)
		began := time.Now()
		lease.await(0, 100)
		g.Expect(time.Since(began)).To(BeNumerically("~", 100*StandbyInterval, 2*StandbyInterval))
	})
}

// A standby that could not read the Lease for a time does not take it, unless it has seen no renewal for as long as the
// Lease lasts.
func TestStandbyThatCouldNotReadCountsFromWhatItSees(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		inner := newStored().of("second")
		inner.exists, inner.record = true, resourcelock.LeaderElectionRecord{HolderIdentity: "first", LeaseDurationSeconds: 15}
		lease := NewLease(inner, defaults)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		record, _, err := lease.Get(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(record.HolderIdentity).To(Equal("first"))
		g.Expect(ctx.Err()).To(HaveOccurred(), "it returns when it is stopped")

		inner.away = true
		time.Sleep(time.Hour)
		_, _, err = lease.Get(t.Context())
		g.Expect(err).To(MatchError(errAway))

		inner.away = false
		inner.record.RenewTime.Time = time.Now().Add(-time.Millisecond)
		came := time.Now()
		record, _, err = lease.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(record.HolderIdentity).To(BeEmpty())
		g.Expect(time.Since(came)).To(Equal(15 * time.Second))
	})
}

// A leader that has lost its Lease to another must learn it at once.
func TestLeaderDoesNotWaitForTheOther(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		inner := newStored().of("first")
		lease := NewLease(inner, defaults)
		g.Expect(lease.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "first", LeaseDurationSeconds: 15})).To(Succeed())
		inner.record.HolderIdentity = "second"
		began := time.Now()
		record, _, err := lease.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(record.HolderIdentity).To(Equal("second"))
		g.Expect(time.Since(began)).To(BeZero())
	})
}

// The answer to the write that took the Lease is lost. The next attempt renews it.
func TestLeaseThatWasTakenWithoutAnAnswerIsOurs(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		inner := newStored().of("first")
		inner.loses = 1
		lease := NewLease(inner, defaults)
		taken := resourcelock.LeaderElectionRecord{HolderIdentity: "first", LeaseDurationSeconds: 15}
		g.Expect(lease.Create(t.Context(), taken)).NotTo(Succeed())
		began := time.Now()
		record, _, err := lease.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(record.HolderIdentity).To(Equal("first"))
		g.Expect(time.Since(began)).To(BeZero())
	})
}

// Somebody deletes the Lease. Its holder creates it again, and a standby takes it only once the last renewal has
// expired.
func TestDeletedLeaseIsStillHeld(t *testing.T) {
	bubble.Each(t, timings, func(t *testing.T, g Gomega, timing Timing) {
		lease := newStored()
		remove := func() { lease.change(func() { lease.exists = false }) }
		first := lease.stand(t, "first", timing)
		<-first.leads
		second := lease.stand(t, "second", timing)
		lease.await(2, 2)
		for range 10 {
			remove()
			lease.await(1, 0) // Its holder creates it.
			lease.await(0, 2) // The standby sees it.
			g.Expect(lease.held().HolderIdentity).To(Equal("first"))
			g.Expect(second.leads).To(BeEmpty())
		}
		first.kill()
		renewed := lease.held().RenewTime.Time
		lease.await(0, 2) // The standby sees the last renewal.
		remove()
		began := <-second.leads
		g.Expect(began.Sub(renewed)).To(BeNumerically(">=", timing.LeaseDuration))
	})
}
