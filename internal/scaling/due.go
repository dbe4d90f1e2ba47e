// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

// Queue is the content of a queue.
type Queue struct {
	// Waiting is the number of messages that no worker has taken, and InProgress the number that a worker has taken and
	// not finished.
	Waiting, InProgress int64
	// Threshold is the number of messages per Job. Values below 1 count as 1.
	Threshold int64
}

func (q Queue) waiting() int64 { return max(q.Waiting, 0) }

// Outstanding returns the number of messages that are waiting or in progress.
func (q Queue) Outstanding() int64 { return add(q.waiting(), max(q.InProgress, 0)) }

func (q Queue) threshold() int64 { return max(q.Threshold, 1) }

// Calculation determines how the due Jobs of several queues are combined. Unknown values act as Sum.
type Calculation string

// The calculations.
const (
	// Sum adds up the messages of the queues with the same threshold, and then the due Jobs of each threshold. So
	// moving a message between two such queues changes nothing.
	Sum Calculation = "Sum"
	// Max is the largest number of due Jobs of any queue.
	Max Calculation = "Max"
	// Min is the smallest number of due Jobs of any queue with messages.
	Min Calculation = "Min"
	// Avg is the mean number of due Jobs of the queues with messages, rounded up.
	Avg Calculation = "Avg"
)

// due returns the number of Jobs that are due for the messages of the queues, before limits are applied. count returns
// which messages of a queue to count.
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

// dueInAll returns the due Jobs by Sum.
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

// firstOfThreshold reports whether no queue before the i-th has the same threshold.
func firstOfThreshold(queues []Queue, i int) bool {
	for _, earlier := range queues[:i] {
		if earlier.threshold() == queues[i].threshold() {
			return false
		}
	}
	return true
}

// ceil returns n / d, rounded up, for n >= 0. It does not compute n + d, which could overflow.
func ceil(n, d int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)/d + 1
}
