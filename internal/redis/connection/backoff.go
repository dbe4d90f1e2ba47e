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
	// leastSpacing separates the beginnings of two attempts, however quickly the first ended.
	leastSpacing = 250 * time.Millisecond
)

// Backoff spaces out attempts to use a server. The zero value is ready. It is not safe for concurrent use.
//
// A library for exponential back-off would not make it shorter: those return each delay once, and it would still have to
// count attempts, keep them apart, and return the same delay range until the next one begins.
type Backoff struct {
	attempts int
	begun    time.Time
}

// Begin notes that an attempt begins now.
func (b *Backoff) Begin() {
	b.attempts++
	b.begun = time.Now()
}

// Reset notes a success: the next delay will be the shortest.
func (b *Backoff) Reset() { b.attempts = 0 }

// Delay returns how long to wait from now until the next attempt: 100 ms, doubled for each attempt since the last success
// up to 10 s, and half of that random. Attempts begin at least 250 ms apart.
func (b *Backoff) Delay() time.Duration {
	// 100 ms doubled seven times exceeds 10 s already.
	delay := min(firstDelay<<min(b.attempts, 7), longestDelay)
	delay = delay/2 + rand.N(delay/2+1)
	return max(delay, time.Until(b.begun.Add(leastSpacing)))
}
