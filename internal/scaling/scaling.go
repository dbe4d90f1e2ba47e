// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaling computes how many Jobs should be active, see [Decide], and pauses creation while new Jobs would be
// wasted, see [Pause]. Its only inputs are numbers and times: it has no access to the clock, the network or Kubernetes.
//
//	due(n)  = ceil(n / threshold), 0 while the messages outstanding in all queues <= activationThreshold, unless they
//	          have waited for maxWaitSeconds
//	wanted  = due(waiting + inProgress)                                              Default
//	          claimed + due(waiting)                                                 Accurate
//	          claimed + due(waiting) - deduction - floor(claimed * percentage / 100) Custom
//	          maxReplicas while due(waiting) > 0, else 0                             Eager
//	desired = clamp(max(0, wanted) + spare, min(minReplicas, maxReplicas), maxReplicas)
//	create  = max(0, desired - active), of which at most max(0, maxPendingReplicas - pending) at once
//	spare   = spareReplicas with Default and Eager, else 0: Accurate and Custom would count a spare Job that is ready
//	          as claimed, and want another one, without end
//
// How the due Jobs of several queues are combined is in due.go.
//
// For all inputs create <= max(0, maxReplicas - active), and a decision after these creates returns create = 0. desired
// never falls when a queue grows, with one exception: Min and Avg ignore empty queues, so a first message in another
// queue can lower them. All numbers are int64 and fit an int32 only after clamping, so that no depth overflows.
package scaling

import "math"

// Strategy determines how the number of Jobs follows from the messages. Unknown values act as StrategyDefault.
type Strategy string

// The strategies.
const (
	// StrategyDefault wants one Job per threshold of outstanding messages.
	StrategyDefault Strategy = "Default"
	// StrategyAccurate wants one Job per threshold of waiting messages, in addition to the Jobs that have claimed
	// messages.
	StrategyAccurate Strategy = "Accurate"
	// StrategyCustom is StrategyAccurate minus Deduction and minus ClaimedPercentage of the Jobs that have claimed
	// messages.
	StrategyCustom Strategy = "Custom"
	// StrategyEager wants MaxReplicas Jobs while any message is waiting.
	StrategyEager Strategy = "Eager"
)

// CountsClaimed reports whether the strategy depends on the number of Jobs that have claimed messages.
func (s Strategy) CountsClaimed() bool { return s == StrategyAccurate || s == StrategyCustom }

// Policy is the scaling configuration of a ScaledJob.
type Policy struct {
	// ActivationThreshold is the number of outstanding messages up to which no Job is due.
	ActivationThreshold int64
	// MinReplicas is the number of Jobs to keep active without messages.
	MinReplicas int32
	// SpareReplicas is the number of Jobs to keep active in addition to those that are due. It has no effect on strategies
	// that count claimed Jobs.
	SpareReplicas int32
	// MaxReplicas is the maximum number of active Jobs. It takes precedence over MinReplicas and SpareReplicas.
	MaxReplicas int32
	// MaxPendingReplicas is the maximum number of active Jobs without a ready Pod; 0 is no maximum.
	MaxPendingReplicas int32
	// Calculation determines how several queues are combined.
	Calculation Calculation
	// Strategy determines how the number of Jobs follows from the messages.
	Strategy Strategy
	// Deduction is the number of Jobs, and ClaimedPercentage the percentage of the claimed Jobs, that StrategyCustom
	// subtracts.
	Deduction         int64
	ClaimedPercentage int32
}

// Observation is the input of a decision. All of it was observed at about the same time. If any part could not be
// observed, there is no Observation.
type Observation struct {
	// Queues are the queues with their content.
	Queues []Queue
	// Overdue is true if messages have waited for so long that Jobs are due for them whatever ActivationThreshold is.
	Overdue bool
	// Active is the number of unfinished Jobs.
	Active int64
	// Claimed is the number of active Jobs that are assumed to have taken their messages from the queue.
	Claimed int64
}

// Outstanding returns the number of messages that are waiting or in progress, in all queues.
func (o Observation) Outstanding() int64 {
	var sum int64
	for _, queue := range o.Queues {
		sum = add(sum, queue.Outstanding())
	}
	return sum
}

// Decision is the result of Decide.
type Decision struct {
	// Desired is the number of Jobs that should be active.
	Desired int32
	// Create is the number of Jobs to create now.
	Create int32
	// AtMax is true if more Jobs are due than MaxReplicas allows.
	AtMax bool
}

// Decide returns how many Jobs should be active, and how many of them to create.
func Decide(seen Observation, policy Policy) Decision {
	minimum, maximum := policy.limits()
	wanted := wanted(seen, policy, maximum)
	desired := min(max(add(max(wanted, 0), policy.spare()), minimum), maximum)
	return Decision{
		Desired: int32(desired),
		Create:  int32(max(0, desired-max(seen.Active, 0))),
		AtMax:   wanted > maximum,
	}
}

// Startable returns how many Jobs MaxPendingReplicas lets be created, if this many active Jobs have no ready Pod.
func (p Policy) Startable(pending int64) int64 {
	if p.MaxPendingReplicas <= 0 {
		return math.MaxInt64
	}
	return max(0, int64(p.MaxPendingReplicas)-max(pending, 0))
}

// spare returns the number of Jobs to keep active in addition to those that are due.
func (p Policy) spare() int64 {
	if p.Strategy.CountsClaimed() {
		return 0
	}
	return int64(max(p.SpareReplicas, 0))
}

// Free returns how many of the Jobs to create are not due for orphaned messages, for which this many Jobs are due.
// probes is the number of active Jobs that were created for these.
func Free(seen Observation, policy Policy, orphaned, probes int64) int32 {
	create := Decide(seen, policy).Create
	if orphaned == 0 {
		return create
	}
	minimum, maximum := policy.limits()
	// The messages of several queues, or below a threshold, may share Jobs. Those that wait get theirs in any case.
	waiting := due(seen.Queues, policy.Calculation, Queue.waiting)
	others := max(add(max(wanted(seen, policy, maximum)-orphaned, waiting), policy.spare()), minimum)
	return int32(min(int64(create), max(0, others-max(0, seen.Active-probes))))
}

// limits returns the valid minimum and maximum of active Jobs.
func (p Policy) limits() (minimum, maximum int64) {
	maximum = int64(max(p.MaxReplicas, 0))
	return min(int64(max(p.MinReplicas, 0)), maximum), maximum
}

// InProgress returns the number of Jobs that are due for messages in progress alone. It is 0 if the strategy does not
// count these.
func InProgress(queues []Queue, policy Policy) int64 {
	switch policy.Strategy {
	case StrategyAccurate, StrategyCustom, StrategyEager:
		return 0
	default:
		return due(queues, policy.Calculation, func(queue Queue) int64 { return max(queue.InProgress, 0) })
	}
}

// wanted returns the number of Jobs that the strategy wants, before limits are applied.
func wanted(seen Observation, policy Policy, maximum int64) int64 {
	active := seen.Overdue || seen.Outstanding() > max(policy.ActivationThreshold, 0)
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
		return add(claimed, dueFor(Queue.waiting)) -
			max(policy.Deduction, 0) - percentOf(claimed, policy.ClaimedPercentage)
	case StrategyEager:
		if dueFor(Queue.waiting) > 0 {
			return maximum
		}
		return 0
	default:
		return dueFor(Queue.Outstanding)
	}
}

// percentOf returns a percentage of n, rounded down.
func percentOf(n int64, percentage int32) int64 {
	part := int64(min(max(percentage, 0), 100))
	return n/100*part + n%100*part/100
}

// add returns the sum of two non-negative numbers, or the largest number if it overflows.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
