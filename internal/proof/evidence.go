// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"sync"
	"time"
)

// Setting is what a server says of its own notify-keyspace-events.
type Setting struct {
	// Asked says that it was asked, and Readable that it told.
	Asked, Readable bool
	// Flags are what it told.
	Flags Flags
	// Refused says that it was asked to add the recommended flags, and did not.
	Refused bool
}

// silent says that by its own word the server publishes nothing about lists.
func (s Setting) silent() bool { return s.Readable && !s.Flags.PublishLists() }

// Evidence is what shows that a server publishes events, or that it does not. The zero
// value is ready. It is safe for concurrent use.
type Evidence struct {
	mu      sync.Mutex
	setting Setting
	// heard says that an event of a command on a list came.
	heard bool
	// lostAt is when the last session ended; zero while one runs.
	lostAt time.Time
}

// Begin notes the begin of a session. After a longer absence the server may be another.
func (e *Evidence) Begin(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.lostAt.IsZero() && now.Sub(e.lostAt) >= gracePeriod {
		e.setting, e.heard = Setting{}, false
	}
	e.lostAt = time.Time{}
}

// Lost notes the end of a session.
func (e *Evidence) Lost(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lostAt = now
}

// Heard notes that an event of a list came. It reports whether that is news.
func (e *Evidence) Heard() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := !e.heard
	e.heard = true
	return news
}

// Told notes what the server says of itself. It reports whether that is news.
func (e *Evidence) Told(setting Setting) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.setting != setting
	e.setting = setting
	return news
}

// ExpectsEvents reports whether the server does not itself say that it publishes none.
func (e *Evidence) ExpectsEvents() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.setting.silent()
}

func (e *Evidence) get() (Setting, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.setting, e.heard
}
