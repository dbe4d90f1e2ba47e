// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"
)

// outcome is what came of all pushes.
type outcome struct {
	results []result
	peak    int // the largest number of Jobs active at a time
	limit   int // maxReplicas
}

// check fails unless exactly the due Jobs were created, never too many at a
// time.
func (o outcome) check() error {
	for _, r := range o.results {
		if r.created != r.due {
			return fmt.Errorf("%s led to %s; the number due is %d",
				count(r.messages, "message"), count(r.created, "Job"), r.due)
		}
	}
	if o.peak > o.limit {
		return fmt.Errorf("%s were active at a time, but at most %d may be", count(o.peak, "Job"), o.limit)
	}
	return nil
}

// total sums up a number of each push.
func (o outcome) total(number func(result) int) int {
	sum := 0
	for _, r := range o.results {
		sum += number(r)
	}
	return sum
}

// reactions returns how soon the Jobs of single messages were seen, ascending.
func (o outcome) reactions() []time.Duration {
	var reactions []time.Duration
	for _, r := range o.results {
		if r.messages == 1 {
			reactions = append(reactions, r.first)
		}
	}
	slices.Sort(reactions)
	return reactions
}

// percentile returns the smallest of ascending durations that p percent of them do not exceed.
func percentile(ascending []time.Duration, p int) time.Duration {
	rank := (len(ascending)*p + 99) / 100
	return ascending[max(rank, 1)-1]
}
