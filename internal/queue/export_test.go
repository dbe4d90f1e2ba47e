// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// SetClock sets the time that a reader compares scores with.
func (r *Reader) SetClock(now time.Time) { r.now = func() time.Time { return now } }

// TimeToCount sets how long a reader may count entries at a server each time.
func (r *Reader) TimeToCount(at auth.Endpoint, each time.Duration) {
	memoryOf(r.pool.Conn(at, 0)).counting = fixed(each)
}

// fixed is a time that is always left.
type fixed time.Duration

func (f fixed) Left() time.Duration { return time.Duration(f) }
func (fixed) Charge(time.Duration)  { /* it is always left */ }
