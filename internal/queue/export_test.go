// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// SetClock sets the time that a reader compares scores with.
func (r *Reader) SetClock(now time.Time) { r.now = func() time.Time { return now } }

// TimeToCount sets how many milliseconds per second a reader may count entries at a server.
func (r *Reader) TimeToCount(at auth.Endpoint, perSecond int) {
	memoryOf(r.pool.Conn(at, 0)).counting = rate.NewLimiter(rate.Limit(perSecond), perSecond)
}
