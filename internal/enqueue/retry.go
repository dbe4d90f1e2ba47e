// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import "time"

// Retry is when something besides creating, which may fail again and again, is to be tried next. The zero value is that of something that has
// not failed.
type Retry struct {
	failures int
	next     time.Time
}

// Note keeps whether it has failed now.
func (r *Retry) Note(err error, now time.Time) {
	if err == nil {
		*r = Retry{}
		return
	}
	r.failures++
	r.next = now.Add(RetryDelay(r.failures))
}

// Failures is how often in a row it has failed.
func (r *Retry) Failures() int { return r.failures }

// Wait is how long to wait until it is tried again, 0 if it may be tried now.
func (r *Retry) Wait(now time.Time) time.Duration { return max(0, r.next.Sub(now)) }
