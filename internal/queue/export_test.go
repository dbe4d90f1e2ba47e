// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// SetClock makes a reader compare scores with another time.
func (r *Reader) SetClock(now time.Time) { r.now = func() time.Time { return now } }

// TimeToCount gives a reader so many milliseconds a second for counting entries at a server.
func (r *Reader) TimeToCount(at auth.Endpoint, perSecond int) {
	r.budgets.of(auth.Endpoint{}) // Now there is a map.
	r.budgets.limiters[at] = rate.NewLimiter(rate.Limit(perSecond), perSecond)
}
