// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

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

// Backoff spaces out attempts to use an endpoint. The zero value is ready. It is not
// safe for concurrent use.
type Backoff struct {
	attempts int
	begun    time.Time
}

// Begin notes that an attempt begins now.
func (b *Backoff) Begin() { b.begun = time.Now() }

// Reset makes the next delay a short one again, after a success.
func (b *Backoff) Reset() { b.attempts = 0 }

// Next returns how long to wait from now until the next attempt. Each call without a
// [Backoff.Reset] doubles the delay, from 100 ms up to 10 s; half of it is random.
func (b *Backoff) Next() time.Duration {
	delay := longestDelay
	if b.attempts < 7 { // 100 ms << 7 exceeds the longest delay.
		delay = firstDelay << b.attempts
	}
	b.attempts++
	delay = delay/2 + rand.N(delay/2+1) //nolint:gosec // Jitter is no secret.
	return max(delay, time.Until(b.begun.Add(leastSpacing)))
}
