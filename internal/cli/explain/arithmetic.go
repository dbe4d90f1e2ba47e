// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// compute writes the steps from the messages to the number of desired Jobs.
func (e *explainer) compute() {
	e.is.Desired = e.sj.Status.DesiredJobs
	seen, known := e.observation()
	if !known {
		e.step("The depth of the queue is not known, so no Jobs are created: an unknown depth does not count as 0.")
		return
	}
	e.step("%s", e.rule())
	if !e.activates(seen) {
		e.step("%d outstanding messages do not exceed activationThreshold, which is %d, so the Jobs that are due for them are 0",
			seen.Outstanding(), e.policy.ActivationThreshold)
	}
	if missing := e.unknownInput(); missing != "" {
		e.step("The operator has computed %s. This can't be repeated here: %s.", jobsOf(e.sj.Status.DesiredJobs), missing)
		return
	}
	if e.given != nil {
		desired := scaling.Decide(seen, e.policy).Desired
		e.is.Desired = &desired
	}
	wanted := e.wanted(seen)
	e.limit(seen, wanted)
}

func (e *explainer) step(format string, args ...any) {
	e.is.Arithmetic = append(e.is.Arithmetic, fmt.Sprintf(format, args...))
}

// observation is what was given, or what the status says of the queues; false if it does not say it.
func (e *explainer) observation() (scaling.Observation, bool) {
	if e.given != nil {
		seen := *e.given
		seen.Queues = slices.Clone(seen.Queues)
		return seen, true
	}
	seen := scaling.Observation{Active: int64(e.is.Jobs.Active), Claimed: int64(e.is.Jobs.Claimed)}
	for _, each := range e.is.Messages {
		if each.Depth == nil {
			return scaling.Observation{}, false
		}
		seen.Queues = append(seen.Queues, each.Holding(*each.Depth))
	}
	if claimed := e.sj.Status.ClaimedJobs; claimed != nil {
		// The messages are those that the operator saw then.
		seen.Claimed = min(int64(*claimed), seen.Active)
	}
	seen.Overdue = e.overdue()
	return seen, true
}

// overdue reports whether messages have waited for maxWaitSeconds. The status does not say it, but if they are few,
// Jobs are due for them only then.
func (e *explainer) overdue() bool {
	return e.sj.Spec.MaxWaitSeconds != nil && e.sj.Status.DesiredJobs != nil &&
		*e.sj.Status.DesiredJobs > int32(min(int64(e.policy.MinReplicas)+int64(e.policy.SpareReplicas), math.MaxInt32))
}

// unknownInput says which number of the formula is neither in the status nor known from the Pods; empty if none.
func (e *explainer) unknownInput() string {
	if e.planned {
		return ""
	}
	switch e.policy.Strategy {
	case scaling.StrategyAccurate, scaling.StrategyCustom:
		reported := e.given == nil && e.sj.Status.ClaimedJobs != nil
		if !reported && (!e.facts.JobsKnown || !e.facts.PodsKnown) {
			return "it depends on how long Pods have been ready"
		}
	case scaling.StrategyEager:
	default:
		return ""
	}
	for i := range e.is.Messages {
		if e.given == nil && e.is.Messages[i].isUndivided() {
			return "the status does not say how many entries of a stream wait, and how many are pending in the group"
		}
	}
	return ""
}

// isUndivided reports whether it is not known how many entries of a stream are pending.
func (q *Queue) isUndivided() bool { return q.ConsumerGroup != "" && q.PendingEntries == nil }

// activates reports whether Jobs are due for the messages, if there are any.
func (e *explainer) activates(seen scaling.Observation) bool {
	return seen.Overdue || e.policy.ActivationThreshold <= 0 || seen.Outstanding() > e.policy.ActivationThreshold
}

// rule says by which rule Jobs are due.
func (e *explainer) rule() string {
	grace := seconds(e.sj.Spec.ScalingStrategy.ClaimGrace())
	switch e.policy.Strategy {
	case scaling.StrategyAccurate:
		return fmt.Sprintf("Accurate: the Jobs that have been ready for %s, which count as having taken their messages, and one for each "+
			"threshold of waiting messages", grace)
	case scaling.StrategyCustom:
		return fmt.Sprintf("Custom: the Jobs that have been ready for %s, which count as having taken their messages, and one for each "+
			"threshold of waiting messages, minus the deductions", grace)
	case scaling.StrategyEager:
		return "Eager: maxReplicas Jobs while a message waits"
	}
	return "Default: one Job for each threshold of outstanding messages, rounded up"
}

// wanted writes the formula, and returns the Jobs that the strategy wants.
func (e *explainer) wanted(seen scaling.Observation) int64 {
	unlimited := e.policy
	unlimited.MinReplicas, unlimited.SpareReplicas, unlimited.MaxReplicas = 0, 0, math.MaxInt32
	wanted := int64(scaling.Decide(seen, unlimited).Desired)
	if e.policy.Strategy == scaling.StrategyEager {
		if wanted > 0 {
			e.step("Messages wait: maxReplicas = %d", e.policy.MaxReplicas)
			return int64(e.policy.MaxReplicas)
		}
		e.step("No message waits for which Jobs are due: 0")
		return 0
	}
	due := "0"
	if e.activates(seen) {
		due = e.due(seen.Queues)
	}
	switch e.policy.Strategy {
	case scaling.StrategyAccurate:
		e.step("%d claimed + %s = %d", seen.Claimed, due, wanted)
	case scaling.StrategyCustom:
		e.step("%d claimed + %s − %d − floor(%d × %d / 100) = %d", seen.Claimed, due, e.policy.Deduction, seen.Claimed,
			e.policy.ClaimedPercentage, wanted)
	default:
		if e.activates(seen) {
			e.step("%s = %d", due, wanted)
		}
	}
	return wanted
}

// due is the formula for the messages that the strategy counts.
func (e *explainer) due(queues []scaling.Queue) string {
	onlyWaiting := e.policy.Strategy.CountsClaimed()
	var terms []string
	switch e.policy.Calculation {
	case scaling.Max, scaling.Min, scaling.Avg:
		for _, queue := range queues {
			if n := counted(queue, onlyWaiting); n > 0 || e.policy.Calculation == scaling.Max {
				terms = append(terms, term(fmt.Sprint(n), queue.Threshold))
			}
		}
		return combined(e.policy.Calculation, terms)
	}
	for i, queue := range queues {
		var parts []string
		for j, other := range queues {
			if other.Threshold != queue.Threshold {
				continue
			}
			if j < i {
				parts = nil
				break // An earlier queue has this threshold, and its term counts this one.
			}
			parts = append(parts, fmt.Sprint(counted(other, onlyWaiting)))
		}
		if len(parts) > 0 {
			terms = append(terms, term(strings.Join(parts, " + "), queue.Threshold))
		}
	}
	return strings.Join(terms, " + ")
}

// counted returns the messages of a queue that count.
func counted(queue scaling.Queue, onlyWaiting bool) int64 {
	if onlyWaiting {
		return queue.Waiting
	}
	return queue.Outstanding()
}

// term is the formula for the messages with one threshold.
func term(messages string, threshold int64) string {
	if strings.Contains(messages, "+") {
		messages = "(" + messages + ")"
	}
	if threshold == 1 {
		return messages
	}
	return fmt.Sprintf("ceil(%s / %d)", messages, threshold)
}

// combined is the formula for several queues.
func combined(calculation scaling.Calculation, terms []string) string {
	switch {
	case len(terms) == 0:
		return "0"
	case calculation == scaling.Avg:
		return fmt.Sprintf("ceil((%s) / %d)", strings.Join(terms, " + "), len(terms))
	}
	return fmt.Sprintf("%s(%s)", strings.ToLower(string(calculation)), strings.Join(terms, ", "))
}

// limit writes how spareReplicas, minReplicas and maxReplicas change the number.
func (e *explainer) limit(seen scaling.Observation, wanted int64) {
	desired := int64(scaling.Decide(seen, e.policy).Desired)
	with := wanted
	if e.policy.SpareReplicas > 0 && !e.policy.Strategy.CountsClaimed() {
		with += int64(e.policy.SpareReplicas)
		e.step("and %d of spareReplicas: %d", e.policy.SpareReplicas, with)
	}
	switch {
	case with < desired:
		e.step("raised to minReplicas: %d", desired)
	case with > desired:
		e.step("lowered to maxReplicas: %d", desired)
	}
	reported := e.sj.Status.DesiredJobs
	switch {
	case reported == nil || int64(*reported) == desired:
	case e.is.Live:
		e.step("The operator has reported %d, for the messages that it saw last.", *reported)
	default:
		e.step("The operator has computed %d: the numbers above are of different moments.", *reported)
	}
}

// untilNext returns how many more messages make one more Job due; 0 if no number does.
func (e *explainer) untilNext() int64 {
	seen, known := e.observation()
	if !known || e.unknownInput() != "" {
		return 0
	}
	now := scaling.Decide(seen, e.policy).Desired
	i := 0
	for i < len(seen.Queues) && e.queues[i].Role == scaledjobv1.RoleInProgress {
		i++
	}
	if i == len(seen.Queues) {
		return 0
	}
	const bound = math.MaxInt64 / 4 // No sum overflows.
	most := min(max(seen.Queues[i].Threshold, 1), bound) + min(max(e.policy.ActivationThreshold, 0), bound) + 1
	before := seen.Queues[i].Waiting
	// The number of Jobs does not fall when a queue grows, so the smallest number is found by halving.
	low, high := int64(1), most
	more := func(n int64) bool {
		seen.Queues[i].Waiting = before + n
		return scaling.Decide(seen, e.policy).Desired > now
	}
	if !more(high) {
		return 0
	}
	for low < high {
		middle := low + (high-low)/2
		if more(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// jobsOf returns a number of Jobs in words.
func jobsOf(n *int32) string {
	if n == nil {
		return "no number of Jobs yet"
	}
	return plural(int64(*n), "Job")
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
