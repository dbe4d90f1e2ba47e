// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/moment"
)

// Counts are the counts of several queues, in the order of the queues.
type Counts []Count

// Outstanding returns how many messages of a queue wait or are in progress.
func (c Count) Outstanding() int64 {
	return c.Waiting + min(c.InProgress, math.MaxInt64-c.Waiting)
}

// Outstanding returns how many messages of all queues together wait or are in progress.
func (c Counts) Outstanding() int64 {
	var sum int64
	for _, count := range c {
		sum += min(count.Outstanding(), math.MaxInt64-sum)
	}
	return sum
}

// Waiting returns the number of messages that no worker has taken.
func (c Counts) Waiting() int64 {
	var sum int64
	for _, count := range c {
		sum += min(count.Waiting, math.MaxInt64-sum)
	}
	return sum
}

// Partial reports whether there may be more messages, because not all could be counted.
func (c Counts) Partial() bool {
	return slices.ContainsFunc(c, func(is Count) bool { return is.Partial })
}

// NextDue returns when the next delayed message falls due; zero if there is none.
func (c Counts) NextDue() (next time.Time) {
	for _, count := range c {
		next = moment.First(next, count.NextDue)
	}
	return next
}

// Progress returns a text that changes whenever the consumer group of a stream reads or acknowledges entries.
func (c Counts) Progress() string {
	var all strings.Builder
	for _, count := range c {
		all.WriteString(count.Progress + " ")
	}
	return all.String()
}
