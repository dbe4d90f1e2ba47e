// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package leadership says whether this process is certainly the leader. A process that was suspended for longer than
// its Lease lasts, for example in a paused virtual machine, continues where it stopped. By then another replica is the
// leader, and client-go takes seconds to notice. Until then the process would act on outdated state.
package leadership

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// LeaseDuration is the default time after the last renewal until other replicas take the Lease.
	LeaseDuration = 15 * time.Second
	// RenewDeadline is the default time for which a leader tries to renew the Lease before it exits.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is the default interval at which a leader renews the Lease.
	RetryPeriod = 2 * time.Second

	// LongestCreate is the timeout of a create, unless creates have timed out before. With a Lease of less than 9 seconds,
	// a create that starts while the Lease is held may end after it.
	LongestCreate = 4 * time.Second
	// reserve is how long before other replicas may take the Lease such a create has ended. It allows for the time in
	// which the API server notices that the request was canceled.
	reserve = time.Second
)

var (
	errSuspended   = errors.New("this process was suspended for longer than its lease lasts and must be restarted")
	errNotReleased = errors.New("not releasing a lease that was not renewed in time, as requests may be in flight")
)

// Timing holds the durations of leader election.
type Timing struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Certain returns how long after a renewal new work may start. Work that starts then and takes at most LongestCreate
// ends before other replicas may take the Lease. A Lease that is too short for that is divided into equal parts, for
// the work to start and to end.
func (t Timing) Certain() time.Duration {
	usable := t.LeaseDuration - reserve
	return min(t.RenewDeadline, usable-min(LongestCreate, usable/2))
}

// ShortestLease returns the shortest duration of a Lease, in whole seconds, with which a leader that renews it at most
// so far apart is certain at all times.
func ShortestLease(apart time.Duration) time.Duration {
	return (reserve + apart + min(LongestCreate, apart)).Truncate(time.Second) + time.Second
}

// Lease is the lock of a leader election. It remembers when it was last renewed, and waits while others hold it. The
// election itself uses it from one goroutine; the other methods are safe for concurrent use.
type Lease struct {
	resourcelock.Interface

	timing   Timing
	others   sighting
	acquired time.Time

	mu      sync.Mutex
	renewed time.Time

	// reached is true once the Lease was read or written.
	reached atomic.Bool
}

// NewLease returns a Lease that wraps the lock.
func NewLease(lock resourcelock.Interface, timing Timing) *Lease {
	return &Lease{Interface: lock, timing: timing}
}

// Create implements resourcelock.Interface.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface. It does not release a Lease that was not renewed in time: client-go
// releases also after a failed renewal, while creates may be in flight, and others would take the Lease immediately. It
// does not renew a Lease that has expired, even if no other replica holds it now: another one may have held it in
// between, and this process does not know what that one did.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *Lease) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	began := time.Now()
	released := record.HolderIdentity != l.Identity()
	age, known := l.age(began)
	if !known {
		l.acquired = began
	}
	switch {
	case known && age > l.timing.LeaseDuration:
		return errSuspended
	case known && released && age >= l.timing.Certain():
		return errNotReleased
	}
	if !released {
		// client-go takes these times before Get, which may wait for days.
		record.AcquireTime, record.RenewTime = metav1.NewTime(l.acquired), metav1.NewTime(began)
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	l.reached.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	if released {
		l.renewed = time.Time{}
	}
	return nil
}

// Reached reports whether the Lease was ever read or written. It never is without the permission for that.
func (l *Lease) Reached() bool { return l.reached.Load() }

// Held reports whether the Lease was renewed so recently that work which starts now, and takes at most LongestCreate,
// ends before another replica can become the leader.
func (l *Lease) Held() bool {
	age, known := l.age(time.Now())
	return known && age < l.timing.Certain()
}

// age returns the time since the last renewal, if there was one. It takes the larger of the monotonic and the wall
// clock, because only the wall clock advances while a machine is suspended.
func (l *Lease) age(now time.Time) (age time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0))), !l.renewed.IsZero()
}
