// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package moment compares times, of which the zero one means never, or that the time is not known.
package moment

import "time"

// First returns the first of the times that are not zero, and zero if all are.
func First(times ...time.Time) (first time.Time) {
	for _, at := range times {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Last returns the last of the times, and zero if all are.
func Last(times ...time.Time) (last time.Time) {
	for _, at := range times {
		if at.After(last) {
			last = at
		}
	}
	return last
}
