// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"math/rand/v2"
	"time"
)

const (
	firstDelay   = 250 * time.Millisecond
	longestDelay = 10 * time.Second
)

// Backoff computes the delays between attempts to use a server. The zero value is ready. It is not safe for concurrent
// use.
//
// Libraries for exponential back-off would not make it shorter: they return each delay only once.
type Backoff struct{ attempts int }

// Begin records that an attempt begins now.
func (b *Backoff) Begin() { b.attempts++ }

// Reset records a success: the next delay is the shortest one.
func (b *Backoff) Reset() { b.attempts = 0 }

// Delay returns how long to wait until the next attempt: 250 ms, doubled for each attempt since the last success but
// one, up to 10 s. Half of it is random, but it is never shorter than 250 ms.
func (b *Backoff) Delay() time.Duration {
	delay := firstDelay
	for n := 1; n < b.attempts && delay < longestDelay; n++ {
		delay = min(2*delay, longestDelay)
	}
	return max(delay/2+rand.N(delay/2+1), firstDelay)
}
