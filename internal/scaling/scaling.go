// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaling decides how many Jobs should be active, and whether creating more is of any use now: see [Decide] and [Pause]. It sees
// numbers and times only: no clock, no network, no Kubernetes.
//
//	due(n)  = ceil(n / threshold), 0 while the messages outstanding in all queues <= activationThreshold
//	wanted  = due(waiting + inProgress)                                              Default
//	          claimed + due(waiting)                                                 Accurate
//	          claimed + due(waiting) - deduction - floor(claimed * percentage / 100) Custom
//	          maxReplicas while due(waiting) > 0, else 0                             Eager
//	desired = clamp(wanted, min(minReplicas, maxReplicas), maxReplicas)
//	create  = max(0, desired - active)
//
// What is due for several queues is in due.go.
//
// For all inputs create <= max(0, maxReplicas - active), and deciding again after the creates gives 0. Desired never falls as a queue
// grows, but where a calculation looks at the queues that are not empty, Min or Avg, and one more comes to be among them. Numbers are int64
// throughout and only fit an int32 once they are clamped, so that no depth overflows.
package scaling

import "math"

// Strategy names how the number of Jobs follows from the messages. Any but those below is StrategyDefault.
type Strategy string

// The strategies.
const (
	// StrategyDefault has a Job for each threshold of messages that are outstanding.
	StrategyDefault Strategy = "Default"
	// StrategyAccurate has, besides the Jobs that have claimed messages, a Job for each threshold of those that wait.
	StrategyAccurate Strategy = "Accurate"
	// StrategyCustom is Accurate less a number of Jobs and a part of those that have claimed messages.
	StrategyCustom Strategy = "Custom"
	// StrategyEager has as many Jobs as there may be while any message waits.
	StrategyEager Strategy = "Eager"
)

// CountsClaimed says whether the number of Jobs depends on how many have claimed messages.
func (s Strategy) CountsClaimed() bool { return s == StrategyAccurate || s == StrategyCustom }

// Policy is what the user asked for.
type Policy struct {
	// ActivationThreshold is the number of outstanding messages up to which nothing is due.
	ActivationThreshold int64
	// MinReplicas is how many Jobs are kept active without any message.
	MinReplicas int32
	// MaxReplicas is how many Jobs may be active at once. It wins over MinReplicas.
	MaxReplicas int32
	// Calculation says what several queues amount to.
	Calculation Calculation
	// Strategy says how the number of Jobs follows.
	Strategy Strategy
	// Deduction is how many Jobs StrategyCustom has less, and ClaimedPercentage which part of the claimed ones, in percent.
	Deduction         int64
	ClaimedPercentage int32
}

// Observation is what was seen, all of it at about the same time. There is none while anything could not be seen.
type Observation struct {
	// Queues are the queues, each with what it holds.
	Queues []Queue
	// Active is how many Jobs have not finished.
	Active int64
	// Claimed is how many of these have taken their messages off the queue, as far as that can be told.
	Claimed int64
}

// Outstanding is how many messages wait or are being worked on, in all queues.
func (o Observation) Outstanding() int64 {
	var sum int64
	for _, queue := range o.Queues {
		sum = add(sum, queue.Outstanding())
	}
	return sum
}

// Decision is what follows.
type Decision struct {
	// Desired is how many Jobs should be active.
	Desired int32
	// Create is how many Jobs to create now.
	Create int32
	// AtMax says that more Jobs are due than MaxReplicas allows.
	AtMax bool
}

// Decide tells how many Jobs should be active, and how many of them to create.
func Decide(seen Observation, policy Policy) Decision {
	maximum := int64(max(policy.MaxReplicas, 0))
	minimum := min(int64(max(policy.MinReplicas, 0)), maximum)
	wanted := wanted(seen, policy, maximum)
	desired := min(max(wanted, minimum), maximum)
	return Decision{
		Desired: int32(desired),
		Create:  int32(max(0, desired-max(seen.Active, 0))),
		AtMax:   wanted > maximum,
	}
}

// wanted is how many Jobs the strategy wants to be active, before any limit.
func wanted(seen Observation, policy Policy, maximum int64) int64 {
	active := seen.Outstanding() > max(policy.ActivationThreshold, 0)
	dueFor := func(count func(Queue) int64) int64 {
		if !active {
			return 0
		}
		return due(seen.Queues, policy.Calculation, count)
	}
	claimed := min(max(seen.Claimed, 0), max(seen.Active, 0))
	switch policy.Strategy {
	case StrategyAccurate:
		return add(claimed, dueFor(Queue.waiting))
	case StrategyCustom:
		return add(claimed, dueFor(Queue.waiting)) - max(policy.Deduction, 0) - percentOf(claimed, policy.ClaimedPercentage)
	case StrategyEager:
		if dueFor(Queue.waiting) > 0 {
			return maximum
		}
		return 0
	default:
		return dueFor(Queue.Outstanding)
	}
}

// percentOf is a part of n, rounded down.
func percentOf(n int64, percentage int32) int64 {
	part := int64(min(max(percentage, 0), 100))
	return n/100*part + n%100*part/100
}

// add is the sum of two numbers that are not negative, or the largest number where that is more.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
