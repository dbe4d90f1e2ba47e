// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"math/rand/v2"
	"time"
)

const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 10 * time.Second
	// leastSpacing is the minimum time between the starts of two attempts, even if the first one failed at once.
	leastSpacing = 250 * time.Millisecond
)

// Backoff computes the delays between attempts to use a server. The zero value is ready. It is not safe for concurrent
// use.
//
// Libraries for exponential back-off would not make it shorter: their delay does not depend on when the attempt
// started, and they return each delay only once.
type Backoff struct {
	attempts int
	begun    time.Time
}

// Begin records that an attempt begins now.
func (b *Backoff) Begin() {
	b.attempts++
	b.begun = time.Now()
}

// Reset records a success: the next delay is the shortest one.
func (b *Backoff) Reset() { b.attempts = 0 }

// Delay returns how long to wait from now until the next attempt: 100 ms, doubled for each attempt since the last
// success up to 10 s, half of it random. Attempts begin at least 250 ms apart.
func (b *Backoff) Delay() time.Duration {
	// 100 ms doubled seven times is more than 10 s.
	delay := min(firstDelay<<min(b.attempts, 7), longestDelay)
	delay = delay/2 + rand.N(delay/2+1)
	return max(delay, time.Until(b.begun.Add(leastSpacing)))
}
