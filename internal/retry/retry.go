// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package retry computes when to retry failed requests.
package retry

import "time"

// Delays are exponential: the first is First, each further one is twice as long, and none is longer than Longest.
type Delays struct{ First, Longest time.Duration }

// After returns the delay after a number of consecutive failures; 0 if there were none.
func (d Delays) After(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	delay := d.First
	for range failures - 1 {
		if delay >= d.Longest/2 {
			return d.Longest
		}
		delay *= 2
	}
	return min(delay, d.Longest)
}

// APIServer are the delays after errors of the API server.
var APIServer = Delays{First: 50 * time.Millisecond, Longest: 30 * time.Second}

// Retry tracks when a request to the API server may be sent again. The zero value has no failures.
type Retry struct {
	failures int
	next     time.Time
}

// Note records the result of a request that ended now.
func (r *Retry) Note(err error, now time.Time) {
	if err == nil {
		*r = Retry{}
		return
	}
	r.failures++
	r.next = now.Add(APIServer.After(r.failures))
}

// Failures returns the number of consecutive failures.
func (r *Retry) Failures() int { return r.failures }

// Wait returns how long to wait until the request may be sent again; 0 if it may be sent now.
func (r *Retry) Wait(now time.Time) time.Duration { return max(0, r.next.Sub(now)) }
