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
	// LeaseDuration is how long after the last renewal others wait until they take the lease.
	LeaseDuration = 15 * time.Second
	// RenewDeadline is how long a leader tries to renew it before it ends.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is how often a leader renews it, and others try to take it.
	RetryPeriod = 2 * time.Second
)

var errStoodStill = errors.New("this process stood still for longer than its lease lasts, and must begin anew to lead again")

// Lease is the lock of a leader election that remembers when it was renewed last. It is safe for concurrent use.
type Lease struct {
	resourcelock.Interface

	mu      sync.Mutex
	renewed time.Time
}

// NewLease makes a Lease of a lock.
func NewLease(lock resourcelock.Interface) *Lease { return &Lease{Interface: lock} }

// Create implements resourcelock.Interface.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface. A lease that ran out once is not renewed, though nobody may have taken it for good: what others
// did while they had it is not known here.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *Lease) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	began := time.Now()
	if age, known := l.age(began); known && age > LeaseDuration {
		return errStoodStill
	}
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	if record.HolderIdentity != l.Identity() { // It was released.
		l.renewed = time.Time{}
	}
	return nil
}

// Held says whether the lease was renewed so lately that nobody else can have it.
func (l *Lease) Held() bool {
	age, known := l.age(time.Now())
	return known && age < RenewDeadline
}

// age is how long ago the lease was renewed, if it ever was. Where a machine is suspended, only the clock on the wall goes on.
func (l *Lease) age(now time.Time) (age time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0))), !l.renewed.IsZero()
}
