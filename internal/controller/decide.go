// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// plan is what follows from an observation. The zero plan is that of an unknown depth: nothing is decided, nothing created.
type plan struct {
	// known says that there was a depth to decide on.
	known bool
	// mayCreate says that missing Jobs may be created: creation is neither suspended nor paused.
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
// place before it is known. While creation is held, suspended or paused, what is desired is reported all the same.
func decide(asks *scaledjob.Resolved, seen observation, held bool) plan {
	if seen.queues.err != nil {
		return plan{}
	}
	active := int64(len(seen.jobs.Active) + len(seen.unanswered))
	state := scaling.Observation{Queues: asks.Contents(seen.queues.counts), Active: active, Claimed: int64(seen.claimed)}
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

// isIdle says that a message which came now could not be answered with a Job.
func isIdle(asks *scaledjob.Resolved, seen observation, plan plan, done outcome) bool {
	active := len(seen.jobs.Active) + len(seen.unanswered) + done.created
	return !plan.mayCreate || done.failed() || active >= int(asks.Policy.MaxReplicas)
}
