// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package leadership knows whether this process leads for certain. A process that stood still for longer than its lease, as a paused virtual
// machine does, goes on where it was: by then another leads, and client-go takes seconds to find out. What it would do meanwhile, it would do
// by an old view.
package leadership

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// LeaseDuration is, by default, how long after the last renewal others wait until they take the lease.
	LeaseDuration = 15 * time.Second
	// RenewDeadline is, by default, how long a leader tries to renew it before it ends.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is, by default, how often a leader renews it, and others try to take it.
	RetryPeriod = 2 * time.Second

	// LongestCreate is how long a create may take that is begun while the lease is held.
	LongestCreate = 4 * time.Second
	// reserve is how long before others may take the lease this process has ended, and its creates with it. A request that is given up
	// takes a moment to be so on the API server too.
	reserve = time.Second
	// notice is how often at least the lease is looked at. Timers stand still while a machine is suspended.
	notice = time.Second
)

// ErrRanOut says that others may be about to take the lease.
var ErrRanOut = errors.New("the lease has run out without being renewed, and others may take it")

var (
	errStoodStill  = errors.New("this process stood still for longer than its lease lasts, and must begin anew to lead again")
	errNotReleased = errors.New("a lease that was not renewed in time is left to run out: what is under way may not have ended")
)

// Timing is how long a lease lasts, and how it is renewed.
type Timing struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Certain is how long after a renewal new work may begin. What takes no longer than LongestCreate has ended then before this process does.
func (t Timing) Certain() time.Duration {
	return min(t.RenewDeadline, t.runsOut()-LongestCreate)
}

// runsOut is how long after a renewal this process ends, before others may take the lease.
func (t Timing) runsOut() time.Duration { return t.LeaseDuration - reserve }

// Lease is the lock of a leader election that remembers when it was renewed last. It is safe for concurrent use.
type Lease struct {
	resourcelock.Interface

	timing Timing

	mu      sync.Mutex
	renewed time.Time
}

// NewLease makes a Lease of a lock.
func NewLease(lock resourcelock.Interface, timing Timing) *Lease {
	return &Lease{Interface: lock, timing: timing}
}

// Create implements resourcelock.Interface.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface. A lease that ran out once is not renewed, though nobody may have taken it for good: what others
// did while they had it is not known here. One that was not renewed in time is not released either: others would take it at once.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *Lease) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	began := time.Now()
	released := record.HolderIdentity != l.Identity()
	age, known := l.age(began)
	switch {
	case known && age > l.timing.LeaseDuration:
		return errStoodStill
	case known && released && age >= l.timing.Certain():
		return errNotReleased
	}
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	if released {
		l.renewed = time.Time{}
	}
	return nil
}

// Held says whether the lease was renewed so lately that what begins now ends before anybody else can have it.
func (l *Lease) Held() bool {
	age, known := l.age(time.Now())
	return known && age < l.timing.Certain()
}

// Watch returns ErrRanOut shortly before others may take the lease from this process, or nil when ctx ends. Whoever calls it ends the
// process then: so nothing that was begun outlives the lease, however long it takes.
func (l *Lease) Watch(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		age, known := l.age(time.Now())
		left := l.timing.runsOut() - age
		switch {
		case !known:
			left = notice
		case left <= 0:
			return ErrRanOut
		}
		timer.Reset(min(left, notice))
	}
}

// age is how long ago the lease was renewed, if it ever was. Where a machine is suspended, only the clock on the wall goes on.
func (l *Lease) age(now time.Time) (age time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0))), !l.renewed.IsZero()
}
