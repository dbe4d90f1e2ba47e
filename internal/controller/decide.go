// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// plan is what follows from an observation. The zero plan is that of an unknown depth: nothing is decided, nothing created.
type plan struct {
	// known says that there was a depth to decide on.
	known bool
	// mayCreate says that Jobs which are missing may be created: neither the user nor a pause is against it.
	mayCreate bool
	// desired is how many Jobs should be active, and atMax that more would be due.
	desired int32
	atMax   bool
	// resend are creates to send once more, since all of them are due whether or not they have made a Job.
	resend []jobcontrol.Unanswered
	// create is how many Jobs to create besides.
	create int
}

// decide compares what is wanted with what is there. A create without an answer counts as an active Job, so that no other takes its
// place before it is known. While creating pauses, what is desired is told all the same.
func decide(spec *scaledjobv1.ScaledJobSpec, seen observation, pausing bool) plan {
	if seen.queues.err != nil {
		return plan{}
	}
	active := int64(len(seen.jobs.Active) + len(seen.unanswered))
	state := scaling.Observation{Queues: scaledjob.Contents(spec.AllQueues(), seen.queues.counts), Active: active, Claimed: int64(seen.claimed)}
	decision := scaling.Decide(state, scaledjob.Policy(spec))
	result := plan{known: true, mayCreate: !spec.Suspend && !pausing, desired: decision.Desired, atMax: decision.AtMax}
	if !result.mayCreate {
		return result
	}
	if int64(decision.Desired) >= active {
		result.resend = seen.unanswered
	}
	result.create = int(decision.Create)
	return result
}

// couldCreate says whether a message that came now could be answered with a Job.
func couldCreate(spec *scaledjobv1.ScaledJobSpec, seen observation, plan plan, done outcome) bool {
	active := len(seen.jobs.Active) + len(seen.unanswered) + done.created
	failed := done.err != nil || done.refusal != nil
	return plan.mayCreate && !failed && active < int(spec.MaxReplicasOrDefault())
}
