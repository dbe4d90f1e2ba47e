// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

// Queue is what a queue holds.
type Queue struct {
	// Waiting is how many messages no worker has taken, and InProgress how many one has taken and not finished.
	Waiting, InProgress int64
	// Threshold is how many of them one Job is for, at least 1. A smaller one is taken as 1.
	Threshold int64
}

func (q Queue) waiting() int64 { return max(q.Waiting, 0) }

// Outstanding is how many messages wait or are being worked on.
func (q Queue) Outstanding() int64 { return add(q.waiting(), max(q.InProgress, 0)) }

func (q Queue) threshold() int64 { return max(q.Threshold, 1) }

// Calculation says what several queues amount to. Any but those below is Sum.
type Calculation string

// The calculations.
const (
	// Sum adds up the messages of queues with the same threshold, and then the Jobs that are due for each threshold. So a message that moves
	// from one of these queues to another changes nothing.
	Sum Calculation = "Sum"
	// Max takes the most that is due for a queue.
	Max Calculation = "Max"
	// Min takes the least that is due for a queue which is not empty.
	Min Calculation = "Min"
	// Avg takes the mean of what is due for the queues which are not empty, rounded up.
	Avg Calculation = "Avg"
)

// due is how many Jobs the counted messages of the queues are worth, before any limit.
func due(queues []Queue, calculation Calculation, count func(Queue) int64) int64 {
	var sum, least, most, filled int64
	for _, queue := range queues {
		n := ceil(count(queue), queue.threshold())
		if n == 0 {
			continue
		}
		filled++
		sum, most = add(sum, n), max(most, n)
		if filled == 1 || n < least {
			least = n
		}
	}
	switch {
	case calculation == Max || filled == 0:
		return most
	case calculation == Min:
		return least
	case calculation == Avg:
		return ceil(sum, filled)
	default:
		return dueInAll(queues, count)
	}
}

// dueInAll is what is due by Sum.
func dueInAll(queues []Queue, count func(Queue) int64) int64 {
	var all int64
	for i, queue := range queues {
		if !firstOfThreshold(queues, i) {
			continue
		}
		var messages int64
		for _, other := range queues[i:] {
			if other.threshold() == queue.threshold() {
				messages = add(messages, count(other))
			}
		}
		all = add(all, ceil(messages, queue.threshold()))
	}
	return all
}

// firstOfThreshold says whether no queue before the i-th has its threshold.
func firstOfThreshold(queues []Queue, i int) bool {
	for _, earlier := range queues[:i] {
		if earlier.threshold() == queues[i].threshold() {
			return false
		}
	}
	return true
}

// ceil is n / d, rounded up, for an n of 0 or more. (n + d - 1) / d would overflow near the largest n.
func ceil(n, d int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)/d + 1
}
