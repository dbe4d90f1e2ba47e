// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"
	"sync"
	"time"
)

// Setting is what is known about notify-keyspace-events of a server.
type Setting struct {
	// Readable means that the setting could be read. Flags is its value.
	Readable bool
	Flags    Flags
	// Extended means that the operator adds missing flags. Refused means that the server did not accept them.
	Extended, Refused bool
}

// silent reports whether the setting says that the server publishes no events of a class.
func (s Setting) silent(class Class) bool { return s.Readable && !s.Flags.publish(class) }

// Evidence shows whether a server publishes events. It belongs to one session, because the next session may be with
// another server, or with a server whose setting was lost. The zero value is ready. It is safe for concurrent use.
type Evidence struct {
	mu      sync.Mutex
	setting Setting
	// heard are the classes of the events that came.
	heard []Class
	// silentUntil is when, by its setting, the server last published no events of a class.
	silentUntil map[Class]time.Time
}

// Begin records the beginning of a session.
func (e *Evidence) Begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setting, e.heard = Setting{}, nil
}

// Heard records an event of a class. It reports whether that is news: the first one proves that the server publishes
// events of the class, unless its setting can be read.
func (e *Evidence) Heard(class Class) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.heard, class) {
		return false
	}
	e.heard = append(e.heard, class)
	return !e.setting.Readable
}

// SettingRead records the setting that was read. It reports whether it has changed.
func (e *Evidence) SettingRead(setting Setting, now time.Time) bool {
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

// SilentUntil returns until when, by its setting, the server published no events of a class, and zero if its setting
// never said so. Growth before that time is not expected to have events.
func (e *Evidence) SilentUntil(class Class, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.setting.silent(class) {
		return now
	}
	return e.silentUntil[class]
}

// of returns the setting, and whether an event of the class has come.
func (e *Evidence) of(class Class) (setting Setting, heard bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.setting, slices.Contains(e.heard, class)
}
