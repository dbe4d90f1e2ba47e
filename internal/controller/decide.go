// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// plan is the decision made from an observation. In the zero plan the depth is unknown, so no Job is created.
type plan struct {
	// known is true if the depth of the queues was read.
	known bool
	// mayCreate is true if creation is neither suspended nor paused. reacts is true if a message that arrives now may get
	// a Job at once. held is true if Jobs are due and a pause lets none be created.
	mayCreate, reacts, held bool
	// desired is the number of Jobs that should be active. atMax is true if more Jobs than maxReplicas are due.
	desired int32
	atMax   bool
	// atMaxPending is true if Jobs are due that maxPendingReplicas does not allow.
	atMaxPending bool
	// resend are the creates without an answer to send again. They are set only if their Jobs are due in any case.
	resend []jobcontrol.Unanswered
	// create is the number of additional Jobs to create.
	create int
	// due is the number of Jobs that would be created, or whose creates would be sent again, without a pause. free is how
	// many of them are not due for orphaned messages.
	due, free int64
}

// decide decides for the target, now.
func (t *target) decide(seen observation) plan {
	now := time.Now()
	stopped := t.sj.Spec.Suspend || !t.mem.refusals.Until(now).IsZero()
	return decide(&t.spec, seen, stopped, &t.mem.pause, now)
}

// decide compares the due Jobs with the owned Jobs. A create without an answer counts as an active Job, so that no
// other Job is created in its place while its result is unknown. If stopped is true (creation is suspended or refused),
// the plan creates nothing, but still has the desired number of Jobs for the status.
func decide(spec *scaledjob.Resolved, seen observation, stopped bool, pause *scaling.Pause, now time.Time) plan {
	if seen.queues.err != nil {
		return plan{}
	}
	state := stateOf(spec, seen)
	decision := scaling.Decide(state, spec.Policy)
	resend := seen.unanswered
	if int64(decision.Desired) < state.Active {
		resend = nil
	}
	lost, free := int64(len(resend)), scaling.Free(state, spec.Policy, pause.Orphaned(), int64(len(pause.Probes())))
	result := plan{
		known: true, desired: decision.Desired, atMax: decision.AtMax,
		due: lost + int64(decision.Create), free: lost + int64(free),
	}
	if stopped {
		result.held = result.due > 0
		return result
	}
	allowed := pause.Allowed(result.due, result.free, now)
	result.mayCreate, result.reacts = !pause.All(), pause.Reacts(now)
	result.held = allowed == 0 && result.due > 0
	result.resend = resend[:min(lost, allowed)]
	fresh, startable := max(0, allowed-lost), spec.Policy.Startable(seen.pending())
	result.create, result.atMaxPending = int(min(fresh, startable)), fresh > startable
	return result
}

// stateOf converts the observation into the input of the decision.
func stateOf(spec *scaledjob.Resolved, seen observation) scaling.Observation {
	return scaling.Observation{
		Queues:  spec.Contents(seen.queues.counts),
		Overdue: seen.overdue,
		Active:  int64(len(seen.jobs.Active) + len(seen.unanswered)),
		Claimed: int64(seen.claimed),
	}
}

// isIdle reports whether the operator could not create a Job if a message arrived now.
func isIdle(spec *scaledjob.Resolved, seen observation, plan plan, done created) bool {
	active := len(seen.jobs.Active) + len(seen.unanswered) + done.jobs
	pending := seen.pending() + int64(max(0, done.jobs-len(plan.resend))) // pending counts those that were sent again.
	full := active >= int(spec.Policy.MaxReplicas) || spec.Policy.Startable(pending) == 0
	return !plan.reacts || done.failed() || full
}
