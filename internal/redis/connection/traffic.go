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

// traffic is how the calls and connections to one server fare. It tells a slow or full server from one that is down, and
// needs no lock together with [health]: what it says is true for a moment at best. It is safe for concurrent use. The
// zero value has none.
type traffic struct {
	mu     sync.Mutex
	late   int       // calls that have been outstanding for too long
	open   int       // connections of clients that serve
	worked time.Time // when a call was answered last
}

// slow reports whether a call has been outstanding for too long.
func (t *traffic) slow() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late > 0
}

// answered notes that the server did some work.
func (t *traffic) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worked = time.Now()
}

// clock counts a call as late from lateAfter on, here and by count, until done is called.
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

// count notes that so many more connections of clients serve.
func (t *traffic) count(more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open += more
}

// serves reports whether any connection of a client serves.
func (t *traffic) serves() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open > 0
}

// excused reports whether a failure of what began then is no sign that the server is down: others are served, and their
// connections could not all be replaced at once.
func (t *traffic) excused(cause *failure.Error, began time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if failure.IsTimeout(cause) {
		return t.worked.After(began)
	}
	farewell, ok := errors.AsType[*resp.FarewellError](cause)
	return ok && failure.TooManyClients(farewell.Reply) && t.open > 0
}
