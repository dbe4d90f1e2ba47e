// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// plan is the decision made from an observation. In the zero plan the depth is unknown, so no Job is created.
type plan struct {
	// known is true if the depth of the queues was read.
	known bool
	// mayCreate is true if creation is neither suspended nor paused.
	mayCreate bool
	// desired is the number of Jobs that should be active. atMax is true if more Jobs than maxReplicas are due.
	desired int32
	atMax   bool
	// resend are the creates without an answer to send again. They are set only if their Jobs are due in any case.
	resend []jobcontrol.Unanswered
	// create is the number of additional Jobs to create.
	create int
}

// paused says that a pause, and not the user, keeps Jobs from being created.
func (p plan) paused(sj *scaledjobv1.ScaledJob) bool {
	return p.known && !p.mayCreate && !sj.Spec.Suspend
}

// decide compares the due Jobs with the owned Jobs. A create without an answer counts as an active Job, so that no
// other Job is created in its place while its result is unknown. If held is true (creation is suspended or paused), the
// plan creates nothing, but still has the desired number of Jobs for the status.
func decide(asks *scaledjob.Resolved, seen observation, held bool) plan {
	if seen.queues.err != nil {
		return plan{}
	}
	active := int64(len(seen.jobs.Active) + len(seen.unanswered))
	state := scaling.Observation{
		Queues: asks.Contents(seen.queues.counts), Active: active, Claimed: int64(seen.claimed),
	}
	decision := scaling.Decide(state, asks.Policy)
	result := plan{known: true, mayCreate: !held, desired: decision.Desired, atMax: decision.AtMax}
	if held {
		return result
	}
	if int64(decision.Desired) >= active {
		result.resend = seen.unanswered
	}
	result.create = int(decision.Create)
	return result
}

// isIdle reports whether the operator could not create a Job if a message arrived now.
func isIdle(asks *scaledjob.Resolved, seen observation, plan plan, done outcome) bool {
	active := len(seen.jobs.Active) + len(seen.unanswered) + done.created
	return !plan.mayCreate || done.failed() || active >= int(asks.Policy.MaxReplicas)
}
