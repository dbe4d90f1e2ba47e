// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"slices"
	"sync"
	"time"
)

// pace holds the least time between two wakes of one id.
type pace struct {
	fast   time.Duration // normally
	slow   time.Duration // after growth, while the id can create nothing
	shrink time.Duration // after shrinking
}

func productionPace() pace {
	return pace{fast: 25 * time.Millisecond, slow: time.Second, shrink: time.Second}
}

// coalescer turns marks, of which there may be very many, into wakes, spaced out per id.
// The first mark after a quiet time is a wake at once, and the last one of a burst is
// always followed by a wake. It holds one pending wake per id, whether or not wakes are
// taken.
type coalescer[K comparable] struct {
	pace pace
	// merged is called for each event that becomes part of a wake which is pending already.
	merged func()

	mu      sync.Mutex
	entries map[K]*entry
	// ready holds the ids whose wake is due, in the order they became so.
	ready []K
	// signal holds a token while ready may not be empty.
	signal chan struct{}
}

// entry is the state of one id.
type entry struct {
	lastWake time.Time
	// pending is the cause of the next wake, or None, and due is when it is to be.
	pending Cause
	due     time.Time
	timer   *time.Timer // nil until one is needed
	// ready is the cause of the wake that waits to be taken, or None.
	ready Cause
	// idle means that the id can create nothing now.
	idle bool
	// notified is when growth was first heard of since that was last asked for.
	notified time.Time
}

func newCoalescer[K comparable](pace pace, merged func()) *coalescer[K] {
	return &coalescer[K]{pace: pace, merged: merged, entries: map[K]*entry{}, signal: make(chan struct{}, 1)}
}

// add makes an id known. Marks of other ids are dropped.
func (c *coalescer[K]) add(id K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[id]; !ok {
		c.entries[id] = &entry{}
	}
}

// remove forgets an id and its wakes.
func (c *coalescer[K]) remove(id K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return
	}
	e.stop()
	delete(c.entries, id)
	if e.ready != None {
		c.ready = slices.DeleteFunc(c.ready, func(other K) bool { return other == id })
	}
}

// mark asks for a wake of id.
func (c *coalescer[K]) mark(id K, cause Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return
	}
	if cause == Growth && e.notified.IsZero() {
		e.notified = time.Now()
	}
	heard := cause == Growth || cause == Shrink
	if heard && (e.pending != None || e.ready != None) {
		c.merged()
	}
	due := e.lastWake.Add(c.interval(e, cause))
	sooner := e.pending == None || due.Before(e.due)
	e.pending = max(e.pending, cause)
	if sooner {
		c.schedule(id, e, due)
	}
}

// takeNotified returns when growth of id was first heard of since the last call.
func (c *coalescer[K]) takeNotified(id K) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return time.Time{}
	}
	at := e.notified
	e.notified = time.Time{}
	return at
}

// observed notes whether id could create something if it were woken.
func (c *coalescer[K]) observed(id K, canCreate bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok || e.idle == !canCreate {
		return
	}
	e.idle = !canCreate
	if due := e.lastWake.Add(c.interval(e, e.pending)); e.pending != None && due.Before(e.due) {
		c.schedule(id, e, due)
	}
}

func (c *coalescer[K]) interval(e *entry, cause Cause) time.Duration {
	switch {
	case cause == Shrink:
		return c.pace.shrink
	case cause == Growth && e.idle:
		return c.pace.slow
	default:
		return c.pace.fast
	}
}

// schedule makes the pending wake happen when it is due.
func (c *coalescer[K]) schedule(id K, e *entry, due time.Time) {
	e.due = due
	switch wait := time.Until(due); {
	case wait <= 0:
		c.wake(id, e)
	case e.timer == nil:
		e.timer = time.AfterFunc(wait, func() { c.expire(id, e) })
	default:
		e.timer.Reset(wait)
	}
}

// expire is the end of a timer. A timer that was reset at the moment it expired comes
// here early, and again in time.
func (c *coalescer[K]) expire(id K, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] == e && e.pending != None && !time.Now().Before(e.due) {
		c.wake(id, e)
	}
}

// wake moves the pending wake of id to those that are ready.
func (c *coalescer[K]) wake(id K, e *entry) {
	if e.ready == None {
		c.ready = append(c.ready, id)
	}
	e.ready = max(e.ready, e.pending)
	e.pending = None
	e.lastWake = time.Now()
	e.stop()
	notify(c.signal)
}

// take returns the wake that has been ready for longest, if there is one.
func (c *coalescer[K]) take() (Wake[K], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return Wake[K]{}, false
	}
	id := c.ready[0]
	c.ready = c.ready[1:]
	e := c.entries[id]
	w := Wake[K]{ID: id, Cause: e.ready}
	e.ready = None
	return w, true
}

// stop ends all timers.
func (c *coalescer[K]) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		e.stop()
	}
}

// stop ends the timer.
func (e *entry) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// notify leaves a token in a channel of capacity one.
func notify(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
