// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"errors"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// traffic counts the late calls and the working connections of one server. It distinguishes a slow or full
// server from one that is down. It needs no lock in common with [health], because its counts may be outdated at any
// moment. It is safe for concurrent use. The zero value is ready.
type traffic struct {
	mu     sync.Mutex
	late   int       // late calls
	open   int       // connections for reads that work
	worked time.Time // when the server last answered a call
	// shaking is how many connections the server has accepted that are in the handshake, and met is when a handshake last
	// succeeded.
	shaking int
	met     time.Time
}

// slow reports whether a call is late.
func (t *traffic) slow() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late > 0
}

// answered records that the server has answered a call.
func (t *traffic) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worked = time.Now()
}

// clock counts a call as late, here and with count, from lateAfter until done is called.
func (t *traffic) clock(lateAfter time.Duration, count func(more int)) (done func()) {
	var late, over bool // guarded by t.mu
	timer := time.AfterFunc(lateAfter, func() {
		t.mu.Lock()
		if over {
			t.mu.Unlock()
			return
		}
		late = true
		t.late++
		t.mu.Unlock()
		count(1)
	})
	return func() {
		timer.Stop()
		t.mu.Lock()
		over = true
		wasLate := late
		if wasLate {
			t.late--
		}
		t.mu.Unlock()
		if wasLate {
			count(-1)
		}
	}
}

// count adds more to the number of connections for reads that work.
func (t *traffic) count(more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open += more
}

// shake counts a handshake until done is called.
func (t *traffic) shake() (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shaking++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.shaking--
	}
}

// reached records that a handshake has succeeded.
func (t *traffic) reached() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.met = time.Now()
}

// connecting reports whether a call that timed out may have waited for a connection to a server that is far away: a
// handshake is under way, or has succeeded since the call began. If the server does not answer, the handshake fails.
func (t *traffic) connecting(began time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shaking > 0 || t.met.After(began)
}

// serves reports whether a connection for reads works.
func (t *traffic) serves() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open > 0
}

// excused reports whether a failure does not mean that the server is down. That is so if a call timed out while the
// server has answered another call since began, or if the server has too many clients while a connection still works.
func (t *traffic) excused(cause *failure.Error, began time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if failure.IsTimeout(cause) {
		return t.worked.After(began)
	}
	farewell, ok := errors.AsType[*resp.FarewellError](cause)
	return ok && failure.TooManyClients(farewell.Reply) && t.open > 0
}
