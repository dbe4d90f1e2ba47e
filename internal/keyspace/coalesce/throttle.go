// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"sync"
	"time"
)

// The minimum time between two wakes of one id.
const (
	spacing       = 25 * time.Millisecond
	idleSpacing   = time.Second // after growth, while the id can create nothing
	shrinkSpacing = time.Second // after shrinking
)

// Wake is a request to read the keys of a ScaledJob.
type Wake struct {
	ID ID
	// Cause is the most urgent cause since the keys were read.
	Cause Cause
	// After is how long the request has to wait.
	After time.Duration
}

// Throttle turns requests for ids into wakes, with a minimum time between the wakes of each id. The first request after
// a quiet time causes a wake at once, and the last request of a burst is always followed by one. A wake is delivered
// when it is requested, with the time for which it has to wait. Who receives it keeps it for so long, merges it with an
// earlier one of the same id, and calls [Throttle.Serve] before reading the keys. Until then, requests merge into that
// wake, unless they need an earlier or a more urgent one.
//
// Its methods are safe for concurrent use, and none blocks.
type Throttle struct {
	// deliver is called for each wake. merged is called for each event that merges into a wake that was not served.
	deliver func(Wake)
	merged  func()

	mu    sync.Mutex
	paces map[ID]*pace
}

// pace is the state of one id.
type pace struct {
	// cause is the cause of the wake that was delivered and not served yet, or None. due is the time of that wake, and
	// earliest the one at which it would be due if it had been requested long ago.
	cause         Cause
	due, earliest time.Time
	// last is the time of the last wake that was served.
	last time.Time
	// idle means that the id can create nothing now.
	idle bool
	// notified is the time of the first growth request since the last one that was served.
	notified time.Time
}

// NewThrottle returns a Throttle without ids. deliver and merged must not block, and must not use it.
func NewThrottle(deliver func(Wake), merged func()) *Throttle {
	return &Throttle{deliver: deliver, merged: merged, paces: map[ID]*pace{}}
}

// Add adds an id. Requests for unknown ids are ignored.
func (t *Throttle) Add(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.paces[id]; !ok {
		t.paces[id] = &pace{}
	}
}

// Remove removes an id. No wake of it is delivered any longer.
func (t *Throttle) Remove(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.paces, id)
}

// Request requests a wake of id.
func (t *Throttle) Request(id ID, cause Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.paces[id]
	if !ok {
		return
	}
	if cause == Growth && p.notified.IsZero() {
		p.notified = time.Now()
	}
	if p.cause != None && (cause == Growth || cause == Shrink) {
		t.merged()
	}
	t.wake(id, p, cause)
}

// Serve records that the keys of id are read after this: its wake has been served. It returns the time of the first
// growth request since the last call, and zero if there was none.
func (t *Throttle) Serve(id ID) (notified time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.paces[id]
	if !ok {
		return time.Time{}
	}
	if p.cause != None && !time.Now().Before(p.due) {
		p.last = p.due
	}
	p.cause = None
	notified, p.notified = p.notified, time.Time{}
	return notified
}

// SetIdle says whether id is idle, which means that it can create nothing now. Growth wakes an idle id at most once a
// second.
func (t *Throttle) SetIdle(id ID, idle bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.paces[id]
	if !ok || p.idle == idle {
		return
	}
	p.idle = idle
	if p.cause != None {
		t.wake(id, p, p.cause)
	}
}

// Idle reports what SetIdle said last.
func (t *Throttle) Idle(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.paces[id]
	return ok && p.idle
}

// wake delivers a wake, unless the one that was not served is as urgent and comes as early.
func (t *Throttle) wake(id ID, p *pace, cause Cause) {
	earliest := p.last.Add(intervalAfter(cause, p.idle))
	sooner := p.cause == None || earliest.Before(p.earliest)
	if !sooner && cause <= p.cause {
		return
	}
	now := time.Now()
	if sooner {
		p.earliest, p.due = earliest, earliest
		if earliest.Before(now) {
			p.due = now
		}
	}
	p.cause = max(p.cause, cause)
	t.deliver(Wake{ID: id, Cause: p.cause, After: max(p.due.Sub(now), 0)})
}

// intervalAfter returns the minimum time between the last wake of an id and one with this cause.
func intervalAfter(cause Cause, idle bool) time.Duration {
	switch {
	case cause == Shrink:
		return shrinkSpacing
	case cause == Growth && idle:
		return idleSpacing
	default:
		return spacing
	}
}
