// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"sync"
	"time"
)

// patience is for how long a subscription may be missing, or a question unanswered,
// before that is told. Nothing that heals sooner is worth a change of the status.
const patience = 5 * time.Second

// setting is what is known of the server's own notify-keyspace-events.
type setting struct {
	// asked says that the server was asked since the endpoint was last away.
	asked bool
	// readable says that it answered, with flags.
	readable bool
	flags    flags
	// refused says that it was asked to add the recommended flags, and did not.
	refused bool
}

// evidence is what shows that a server publishes events, or that it does not. It is safe
// for concurrent use.
type evidence struct {
	mu      sync.Mutex
	setting setting
	// heard says that an event of a command on a list came.
	heard bool
	// lostAt is when the last session ended; zero while one runs.
	lostAt time.Time
}

// begin notes the begin of a session. After a longer absence the server may be another.
func (e *evidence) begin(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.lostAt.IsZero() && now.Sub(e.lostAt) >= patience {
		e.setting, e.heard = setting{}, false
	}
	e.lostAt = time.Time{}
}

// lost notes the end of a session.
func (e *evidence) lost(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lostAt = now
}

// event notes that an event came. It reports whether that is news.
func (e *evidence) event() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := !e.heard
	e.heard = true
	return news
}

// found notes what the server says of itself. It reports whether that is news.
func (e *evidence) found(now setting) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.setting != now
	e.setting = now
	return news
}

func (e *evidence) get() (setting setting, heard bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.setting, e.heard
}
