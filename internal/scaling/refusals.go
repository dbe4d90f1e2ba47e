// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import "time"

const (
	// FirstPause is the length of the first pause after a refused create. Each further pause is twice as long.
	FirstPause = 10 * time.Second
	// LongestPause is the maximum length of such a pause.
	LongestPause = 5 * time.Minute
)

// Refusals pauses creation after the API server has refused a Job. The zero value pauses nothing.
type Refusals struct {
	// level is the number of pauses. until is when the current or last one ends.
	level int
	until time.Time
	// retry is true if one create may be tried before the end of a pause, because a Job has finished or disappeared.
	retry bool
}

// Refused records that the API server refused to create a Job. The next pause is longer, unless one is running.
func (r *Refusals) Refused(now time.Time) {
	if r.forgotten(now) {
		*r = Refusals{}
	}
	r.retry = false
	if now.Before(r.until) {
		return
	}
	delay := FirstPause
	for range r.level {
		delay = min(2*delay, LongestPause)
	}
	r.level++
	r.until = now.Add(delay)
}

// Accepted records that the API server created all requested Jobs.
func (r *Refusals) Accepted() { *r = Refusals{} }

// MadeRoom records that a Job has finished or disappeared, so that a quota may have room for another one.
func (r *Refusals) MadeRoom() { r.retry = true }

// Until returns when the next create may be tried; zero if that may be now.
func (r *Refusals) Until(now time.Time) time.Time {
	if r.retry || !now.Before(r.until) {
		return time.Time{}
	}
	return r.until
}

// Recent reports whether the last create was refused, and that was not long ago.
func (r *Refusals) Recent(now time.Time) bool { return r.level > 0 && !r.forgotten(now) }

// forgotten reports whether the last pause ended so long ago that it no longer counts.
func (r *Refusals) forgotten(now time.Time) bool {
	return r.level > 0 && now.Sub(r.until) >= forgetAfter
}
