// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import "time"

const (
	// eventDelay is how much later than a read the event of the growth in it may arrive.
	eventDelay = time.Second
	// missesToDisprove is how many growths in a row must have no event until the server counts as one without
	// notifications. A single one may be a command without an event.
	missesToDisprove = 2
)

// Audit compares the depths of a key with its events. Its reads do not overlap. The zero value is ready. It is not safe
// for concurrent use.
type Audit struct {
	// depth is the result of the last read, which began at readAt. readAt is zero before the first read.
	depth  int64
	readAt time.Time
	// grownAt is the end of the read that showed a growth without an event so far. It is zero if there is none.
	grownAt time.Time
	// misses counts the growths in a row without an event. missingSince is the beginning of the read before the first
	// of them.
	misses       int
	missingSince time.Time
}

// Read takes a depth that was read from began until now. It reports whether an earlier growth has become a miss. Growth
// before silentUntil is not expected to have events.
func (a *Audit) Read(depth int64, began, now time.Time, key Subscription, silentUntil time.Time) (missed bool) {
	throughout := key.Present && key.Since.Before(a.readAt)
	if !throughout || !silentUntil.Before(a.readAt) {
		*a = Audit{depth: depth, readAt: began}
		return false
	}
	missed = a.decide(now, key.HeardAt)
	if depth > a.depth && key.HeardAt.Before(a.readAt) && a.grownAt.IsZero() {
		a.grownAt = now
		if a.misses == 0 {
			a.missingSince = a.readAt
		}
	}
	a.depth, a.readAt = depth, began
	return missed
}

// decide ends the open growth if its event has come, or counts it as missed if the event is overdue.
func (a *Audit) decide(now, heardAt time.Time) (missed bool) {
	if heardAt.After(a.missingSince) {
		a.grownAt, a.misses = time.Time{}, 0
		return false
	}
	if !a.overdue(now) {
		return false
	}
	a.grownAt = time.Time{}
	a.misses++
	return true
}

// overdue reports whether the event of the open growth should have come by now.
func (a *Audit) overdue(now time.Time) bool {
	return !a.grownAt.IsZero() && now.Sub(a.grownAt) >= eventDelay
}

// Disproved reports whether the misses show that the server publishes no events for the key, or does not report its
// changes although it tracks the key.
func (a *Audit) Disproved(now time.Time, key Subscription, silentUntil time.Time) bool {
	misses := a.misses
	if a.overdue(now) {
		misses++
	}
	return misses >= missesToDisprove && !key.HeardAt.After(a.missingSince) && silentUntil.Before(a.missingSince)
}

// Until returns when an event that has not come yet will show that the server publishes none, and zero if there is no
// such event.
func (a *Audit) Until(now time.Time) time.Time {
	if a.grownAt.IsZero() || a.overdue(now) || a.misses+1 < missesToDisprove {
		return time.Time{}
	}
	return a.grownAt.Add(eventDelay)
}
