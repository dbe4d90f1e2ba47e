// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"sync"
	"time"
)

// Setting is what a server says of its own notify-keyspace-events.
type Setting struct {
	// Readable says that it told, and Flags what.
	Readable bool
	Flags    Flags
	// Refused says that it was asked to add the recommended flags, and did not.
	Refused bool
}

// silent says that by its own word the server publishes nothing about lists.
func (s Setting) silent() bool { return s.Readable && !s.Flags.publishLists() }

// Evidence is what shows that a server publishes events, or that it does not. It is that of
// one session: the next one may be with another server, or with one that was set up anew.
// The zero value is ready. It is safe for concurrent use.
type Evidence struct {
	mu      sync.Mutex
	setting Setting
	// heard says that an event of a command on a list came.
	heard bool
	// silentUntil is until when the server was last known to publish nothing about lists.
	silentUntil time.Time
}

// Begin notes the begin of a session.
func (e *Evidence) Begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setting, e.heard = Setting{}, false
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
func (e *Evidence) Told(setting Setting, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.setting != setting
	if e.setting.silent() || setting.silent() {
		e.silentUntil = now
	}
	e.setting = setting
	return news
}

// SilentUntil returns until when the server is known to publish nothing about lists, by its
// own word; zero if it never said so. What was not announced before is no wonder.
func (e *Evidence) SilentUntil(now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.setting.silent() {
		return now
	}
	return e.silentUntil
}

func (e *Evidence) get() (Setting, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.setting, e.heard
}
