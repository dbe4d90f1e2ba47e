// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import "time"

const (
	// eventDelay is how long after a read the event of what it shows may come.
	eventDelay = time.Second
	// missesToDisprove is how many growths in a row have to go unannounced until the server
	// counts as one that publishes nothing. One may be a command without an event.
	missesToDisprove = 2
)

// Audit compares the depths that are read of a key with the events that come. Its reads
// follow one another. The zero value is ready. It is not safe for concurrent use.
type Audit struct {
	// depth is by the last read, which began at readAt; zero before the first.
	depth  int64
	readAt time.Time
	// grownAt is when a read ended that showed growth of which no event had told; zero
	// while none is open.
	grownAt time.Time
	// misses counts growths in a row of which no event told in time, and missingSince is
	// when the read before the first of them began.
	misses       int
	missingSince time.Time
}

// Read notes a depth that was read from began until now. It reports whether an earlier
// growth turned out to be missed. Growth from before silentUntil is expected to be silent.
func (a *Audit) Read(depth int64, began, now time.Time, key Subscription, silentUntil time.Time) (missed bool) {
	throughout := key.Present && key.Since.Before(a.readAt)
	if !throughout || !silentUntil.Before(a.readAt) {
		*a = Audit{depth: depth, readAt: began}
		return false
	}
	missed = a.settle(now, key.HeardAt)
	if depth > a.depth && key.HeardAt.Before(a.readAt) && a.grownAt.IsZero() {
		a.grownAt = now
		if a.misses == 0 {
			a.missingSince = a.readAt
		}
	}
	a.depth, a.readAt = depth, began
	return missed
}

// settle decides whether the open growth was missed.
func (a *Audit) settle(now, heardAt time.Time) (missed bool) {
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

// overdue says that the event of the open growth should have come by now.
func (a *Audit) overdue(now time.Time) bool {
	return !a.grownAt.IsZero() && now.Sub(a.grownAt) >= eventDelay
}

// disproved reports whether the server evidently publishes nothing about the key.
func (a *Audit) disproved(now time.Time, key Subscription, silentUntil time.Time) bool {
	misses := a.misses
	if a.overdue(now) {
		misses++
	}
	return misses >= missesToDisprove && !key.HeardAt.After(a.missingSince) && silentUntil.Before(a.missingSince)
}
