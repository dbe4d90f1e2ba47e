// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	// jobsPerMillisecond is the factor of BullMQ scores.
	jobsPerMillisecond = 4096
	// lastSecond is the last second before the year 10000.
	lastSecond = 253402300799
)

// lastDue returns the highest score that is due at now, in the syntax of Redis.
func lastDue(now time.Time, unit Unit) string {
	switch unit {
	case Milliseconds:
		return strconv.FormatInt(now.UnixMilli(), 10)
	case Nanoseconds:
		return strconv.FormatInt(now.UnixNano(), 10)
	case BullMQ:
		return strconv.FormatInt((now.UnixMilli()+1)*jobsPerMillisecond-1, 10)
	default:
		return fmt.Sprintf("%d.%09d", now.Unix(), now.Nanosecond())
	}
}

// dueTime returns the earliest time at which a score is due, or zero if the score is not a time.
func dueTime(score float64, unit Unit) time.Time {
	switch unit {
	case Milliseconds:
		return fromMilliseconds(math.Ceil(score))
	case Nanoseconds:
		if !(score > 0 && score < math.MaxInt64) {
			return time.Time{}
		}
		return time.Unix(0, int64(math.Ceil(score)))
	case BullMQ:
		return fromMilliseconds(math.Floor(math.Ceil(score) / jobsPerMillisecond))
	default:
		if !(score > 0 && score < lastSecond) {
			return time.Time{}
		}
		whole, fraction := math.Modf(score)
		return time.Unix(int64(whole), int64(math.Ceil(fraction*float64(time.Second))))
	}
}

// fromMilliseconds returns the time of a Unix time in milliseconds, or zero if it is out of range or not a number.
func fromMilliseconds(number float64) time.Time {
	if !(number > 0 && number < lastSecond*float64(time.Second/time.Millisecond)) {
		return time.Time{}
	}
	return time.UnixMilli(int64(number))
}
