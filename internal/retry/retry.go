// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package retry says when to try again what has failed.
package retry

import "time"

// Delays are exponential: the first is First, each further one twice as long, and none longer than Longest.
type Delays struct{ First, Longest time.Duration }

// After is the delay after so many failures in a row; 0 after none.
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

// Retry is when a request to the API server, which may fail again and again, is to be sent next. The zero value is that of one that has
// not failed.
type Retry struct {
	failures int
	next     time.Time
}

// Note keeps whether the request has failed now.
func (r *Retry) Note(err error, now time.Time) {
	if err == nil {
		*r = Retry{}
		return
	}
	r.failures++
	r.next = now.Add(APIServer.After(r.failures))
}

// Failures is how often in a row it has failed.
func (r *Retry) Failures() int { return r.failures }

// Wait is how long to wait until it is sent again; 0 if it may be sent now.
func (r *Retry) Wait(now time.Time) time.Duration { return max(0, r.next.Sub(now)) }
