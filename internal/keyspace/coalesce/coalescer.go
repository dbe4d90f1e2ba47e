// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"slices"
	"sync"
	"time"
)

// The minimum time between two wakes of one id.
const (
	spacing       = 25 * time.Millisecond
	idleSpacing   = time.Second // after growth, while the id can create nothing
	shrinkSpacing = time.Second // after shrinking
)

// Coalescer is a [Throttle] for those who take the wakes themselves, when they can: it keeps them until then. The first mark after a quiet time
// causes a wake at once, and the last mark of a burst is always followed by a wake. However many marks there are and
// however slowly wakes are delivered, an id has at most two outstanding wakes:
//
//	mark ──► pending ── when it is due ──► ready ── when the consumer is free ──► delivered
//	          a timer                       a queue
//
// A mark merges into the pending wake and may make it due earlier. A wake that becomes due while the previous one is
// still in the queue merges into that one.
//
// The methods are safe for concurrent use, and none blocks.
type Coalescer[T comparable] struct {
	mu      sync.Mutex
	entries map[T]*entry
	// ready has the ids with a wake that is due, in the order in which they became due.
	ready []T
	// filled is set while ready may not be empty.
	filled Signal
}

// entry is the state of one id.
type entry struct {
	lastWake time.Time
	// pending is the cause of the next wake, or None. due is the time of that wake.
	pending Cause
	due     time.Time
	timer   *time.Timer // nil until one is needed
	// ready is the cause of the wake in the queue, or None.
	ready Cause
	// idle means that the id can create nothing now.
	idle bool
}

// NewCoalescer returns a Coalescer without ids.
func NewCoalescer[T comparable]() *Coalescer[T] {
	return &Coalescer[T]{entries: map[T]*entry{}, filled: NewSignal()}
}

// Add adds an id. Marks of unknown ids are ignored.
func (c *Coalescer[T]) Add(id T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[id]; !ok {
		c.entries[id] = &entry{}
	}
}

// Remove removes an id and its wakes.
func (c *Coalescer[T]) Remove(id T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return
	}
	e.stop()
	delete(c.entries, id)
	if e.ready != None {
		c.ready = slices.DeleteFunc(c.ready, func(other T) bool { return other == id })
	}
}

// Mark requests a wake of id.
func (c *Coalescer[T]) Mark(id T, cause Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return
	}
	due := e.lastWake.Add(intervalAfter(cause, e.idle))
	sooner := e.pending == None || due.Before(e.due)
	e.pending = max(e.pending, cause)
	if sooner {
		c.schedule(id, e, due)
	}
}

// SetIdle says whether id is idle, which means that it can create nothing now. Growth wakes an idle id at most once a
// second.
func (c *Coalescer[T]) SetIdle(id T, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok || e.idle == idle {
		return
	}
	e.idle = idle
	if due := e.lastWake.Add(intervalAfter(e.pending, idle)); e.pending != None && due.Before(e.due) {
		c.schedule(id, e, due)
	}
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

// schedule starts the timer of the pending wake, or makes it ready at once.
func (c *Coalescer[T]) schedule(id T, e *entry, due time.Time) {
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

// expire is called by the timer. If the timer was reset just when it fired, expire is called early once, and again when
// the wake is due.
func (c *Coalescer[T]) expire(id T, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] == e && e.pending != None && !time.Now().Before(e.due) {
		c.wake(id, e)
	}
}

// wake moves the pending wake of id to the queue.
func (c *Coalescer[T]) wake(id T, e *entry) {
	if e.ready == None {
		c.ready = append(c.ready, id)
	}
	e.ready = max(e.ready, e.pending)
	e.pending = None
	e.lastWake = time.Now()
	e.stop()
	c.filled.Set()
}

// Filled has a token while there may be a wake to take.
func (c *Coalescer[T]) Filled() <-chan struct{} { return c.filled }

// Take takes the wake that has been due for longest, if there is one.
func (c *Coalescer[T]) Take() (Due[T], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return Due[T]{}, false
	}
	id := c.ready[0]
	c.ready = c.ready[1:]
	e := c.entries[id]
	w := Due[T]{ID: id, Cause: e.ready}
	e.ready = None
	return w, true
}

// Stop stops all timers. Pending wakes are not delivered.
func (c *Coalescer[T]) Stop() {
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
