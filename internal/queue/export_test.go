// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// SetClock makes a reader compare scores with another time.
func (r *Reader) SetClock(now time.Time) { r.now = func() time.Time { return now } }

// SpendCounting makes a reader have counted for so long that there is no time left for minutes.
func (r *Reader) SpendCounting(at redisconn.Endpoint) {
	for range 100 {
		r.budgets.spend(at, countingBurst)
	}
}
