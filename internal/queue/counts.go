// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"strings"
	"time"
)

// Counts are what several queues hold, in the order in which they were asked for.
type Counts []Count

// Outstanding is how many messages of a queue wait or are in progress.
func (c Count) Outstanding() int64 {
	return c.Waiting + min(c.InProgress, math.MaxInt64-c.Waiting)
}

// Outstanding is how many messages wait or are in progress in all of the queues.
func (c Counts) Outstanding() int64 {
	var sum int64
	for _, count := range c {
		sum += min(count.Outstanding(), math.MaxInt64-sum)
	}
	return sum
}

// Partial says that there may be more messages, which could not be counted.
func (c Counts) Partial() bool {
	for _, count := range c {
		if count.Partial {
			return true
		}
	}
	return false
}

// NextDue is when the next message falls due by itself; zero if none does.
func (c Counts) NextDue() time.Time {
	var next time.Time
	for _, count := range c {
		if next.IsZero() || (!count.NextDue.IsZero() && count.NextDue.Before(next)) {
			next = count.NextDue
		}
	}
	return next
}

// Progress changes whenever the group of a stream was given messages or has acknowledged some.
func (c Counts) Progress() string {
	var all strings.Builder
	for _, count := range c {
		all.WriteString(count.Progress + " ")
	}
	return all.String()
}
