// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

const (
	// countingShare is the part of the time that may be spent on counting the entries of streams, for each endpoint and
	// all its readers together. countingBurst is how much unused time can be saved up.
	countingShare = 0.1
	countingBurst = 500 * time.Millisecond
)

// budgets limits the time for counting the entries of streams at each endpoint. Counting many entries is expensive for
// the server and delays its other clients. The zero value is ready.
type budgets struct {
	mu sync.Mutex
	// limiters has a limiter of milliseconds for each endpoint.
	limiters map[auth.Endpoint]*rate.Limiter
}

// left returns how long entries may be counted now.
func (b *budgets) left(e auth.Endpoint) time.Duration {
	tokens := b.of(e).Tokens()
	return time.Duration(max(0, tokens) * float64(time.Millisecond))
}

// spend records how long entries were counted.
func (b *budgets) spend(e auth.Endpoint, took time.Duration) {
	b.of(e).ReserveN(time.Now(), int(min(took, countingBurst).Milliseconds()))
}

// of returns the limiter of an endpoint. It removes limiters that were not used for some time.
func (b *budgets) of(e auth.Endpoint) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found, ok := b.limiters[e]; ok {
		return found
	}
	if b.limiters == nil {
		b.limiters = map[auth.Endpoint]*rate.Limiter{}
	}
	for other, limiter := range b.limiters {
		if limiter.Tokens() >= float64(limiter.Burst()) {
			delete(b.limiters, other)
		}
	}
	perSecond := countingShare * float64(time.Second.Milliseconds())
	b.limiters[e] = rate.NewLimiter(rate.Limit(perSecond), int(countingBurst.Milliseconds()))
	return b.limiters[e]
}
