// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"
	"sync"
	"time"
)

// Setting is what a server says of its own notify-keyspace-events.
type Setting struct {
	// Readable says that it told, and Flags what.
	Readable bool
	Flags    Flags
	// Extended says that flags which turn out to be missing are about to be added. Refused says
	// that the server was asked to add them, and did not.
	Extended, Refused bool
}

// silent says that by its own word the server publishes nothing about commands of a class.
func (s Setting) silent(class Class) bool { return s.Readable && !s.Flags.publish(class) }

// Evidence is what shows that a server publishes events, or that it does not. It is that of
// one session: the next one may be with another server, or with one that was set up anew.
// The zero value is ready. It is safe for concurrent use.
type Evidence struct {
	mu      sync.Mutex
	setting Setting
	// heard are the classes of which an event came.
	heard []Class
	// silentUntil is until when the server was last known to publish nothing about a class.
	silentUntil map[Class]time.Time
}

// Begin notes the begin of a session.
func (e *Evidence) Begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setting, e.heard = Setting{}, nil
}

// Heard notes that an event of a command of a class came. It reports whether that is news.
func (e *Evidence) Heard(class Class) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.heard, class) {
		return false
	}
	e.heard = append(e.heard, class)
	return true
}

// Told notes what the server says of itself. It reports whether that is news.
func (e *Evidence) Told(setting Setting, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.setting != setting
	if e.silentUntil == nil {
		e.silentUntil = map[Class]time.Time{}
	}
	for _, class := range allClasses {
		if e.setting.silent(class) || setting.silent(class) {
			e.silentUntil[class] = now
		}
	}
	e.setting = setting
	return news
}

// SilentUntil returns until when the server is known to publish nothing about a class, by
// its own word; zero if it never said so. What was not announced before is no wonder.
func (e *Evidence) SilentUntil(class Class, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.setting.silent(class) {
		return now
	}
	return e.silentUntil[class]
}

// of returns what the server says of itself, and whether an event of a class came.
func (e *Evidence) of(class Class) (setting Setting, heard bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.setting, slices.Contains(e.heard, class)
}
