// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import "time"

// SetClock makes a reader compare scores with another time.
func (r *Reader) SetClock(now time.Time) { r.now = func() time.Time { return now } }
