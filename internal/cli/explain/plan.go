// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/policy"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Numbers are what a plan is made for.
type Numbers struct {
	// Queues are the messages of each queue with its threshold, in the order of the spec.
	Queues []scaling.Queue
	// Active is the number of unfinished Jobs. Pending of them have no ready Pod, and Claimed count as having taken their
	// messages.
	Active, Pending, Claimed int64
	// Overdue is true if messages have waited for maxWaitSeconds.
	Overdue bool
}

// Plan says which Jobs the operator would create.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace and Name are those of the ScaledJob; absent if there is none.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Summary is the answer in one sentence.
	Summary string `json:"summary"`
	// Messages are the keys with their outstanding messages, and Outstanding is the number in all of them.
	Messages    []Queue `json:"messages"`
	Outstanding int64   `json:"outstanding"`
	// Active are the unfinished Jobs. Pending of them have no ready Pod, and Claimed count as having taken their messages.
	Active  int64 `json:"active"`
	Pending int64 `json:"pending"`
	Claimed int64 `json:"claimed,omitempty"`
	// Arithmetic are the steps from the messages to the number of desired Jobs, and Desired is that number.
	Arithmetic []string `json:"arithmetic"`
	Desired    int32    `json:"desired"`
	// Creation are the steps from the desired Jobs to those that are created. Create are created at once, and Later when
	// Jobs become ready.
	Creation []string `json:"creation"`
	Create   int64    `json:"create"`
	Later    int64    `json:"later"`
	// Changes says what would change the number.
	Changes []string `json:"changes"`
}

// PlanFor returns which Jobs the operator would create with these numbers, if nothing pauses the creation. numbers has
// each queue of the spec.
func PlanFor(sj *scaledjobv1.ScaledJob, numbers Numbers) Plan {
	seen := scaling.Observation{Queues: numbers.Queues, Active: numbers.Active, Claimed: numbers.Claimed, Overdue: numbers.Overdue}
	decision := scaling.Decide(seen, policy.Of(&sj.Spec))
	assumed := &scaledjobv1.ScaledJob{ObjectMeta: sj.ObjectMeta, Spec: sj.Spec}
	outstanding := seen.Outstanding()
	assumed.Status = scaledjobv1.ScaledJobStatus{
		QueueDepth: &outstanding, DesiredJobs: &decision.Desired,
		ActiveJobs: int32(numbers.Active), PendingJobs: int32(numbers.Pending),
	}
	for i, queue := range sj.Spec.AllQueues() {
		depth := seen.Queues[i].Outstanding()
		assumed.Status.Queues = append(assumed.Status.Queues, scaledjobv1.QueueStatus{Name: queue.Name, Depth: &depth})
	}
	e := newExplainer(Facts{ScaledJob: assumed})
	e.given, e.planned = &seen, true
	e.compute()
	e.explainMore()
	plan := Plan{
		Namespace: sj.Namespace, Name: sj.Name, Messages: e.is.Messages, Outstanding: outstanding,
		Active: numbers.Active, Pending: numbers.Pending, Arithmetic: e.is.Arithmetic, Desired: decision.Desired, Changes: e.is.Changes,
	}
	if e.policy.Strategy.CountsClaimed() {
		plan.Claimed = seen.Claimed
	}
	plan.create(e, int64(decision.Create))
	return plan
}

// create adds which of the missing Jobs are created, and when.
func (p *Plan) create(e *explainer, missing int64) {
	text := fmt.Sprintf("%s outstanding, %s active and %d desired", plural(p.Outstanding, "message"), plural(p.Active, "Job"), p.Desired)
	step := func(format string, args ...any) { p.Creation = append(p.Creation, fmt.Sprintf(format, args...)) }
	switch {
	case missing == 0:
		step("%s", e.balance(p.Active, int64(p.Desired), false))
	case e.sj.Spec.Suspend:
		step("spec.suspend is true, so no Jobs are created.")
	default:
		step("%d desired − %d active = %d", p.Desired, p.Active, missing)
		p.Create = min(missing, e.policy.Startable(p.Pending))
		p.Later = missing - p.Create
	}
	if p.Later > 0 {
		step("%d at once, because maxPendingReplicas is %d and %s pending; %d later, when Jobs become ready.", p.Create, e.policy.MaxPendingReplicas,
			jobsAre(p.Pending), p.Later)
	}
	p.Summary = fmt.Sprintf("%s: %s.", text, created(p.Create))
}

func created(n int64) string {
	if n == 0 {
		return "no Job is created"
	}
	return jobsAre(n) + " created"
}

// Text returns the plan as text, in lines of at most width columns, except for names that are longer.
func (p *Plan) Text(width int) string {
	w := &writer{width: width}
	name := p.Name
	if p.Namespace != "" {
		name = p.Namespace + "/" + name
	}
	w.hanging("", strings.TrimPrefix(name+": "+p.Summary, ": "))
	w.section("Messages")
	w.table((&Explanation{Messages: p.Messages, Outstanding: &p.Outstanding}).messageRows())
	w.section("Jobs")
	jobs := fmt.Sprintf("%d active: %d with a ready Pod, %d pending", p.Active, p.Active-p.Pending, p.Pending)
	if p.Claimed > 0 {
		jobs += fmt.Sprintf("; %d claimed", p.Claimed)
	}
	w.hanging(layout.Indent, jobs)
	w.part("What is due", p.Arithmetic)
	w.part("What is created", p.Creation)
	w.part("What would change it", p.Changes)
	return w.text.String()
}
