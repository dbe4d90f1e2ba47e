// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// updatePause passes the changes of the owned Jobs and of the queues since the last reconcile to the pause.
func (r *Reconciler) updatePause(t *target, seen observation) {
	now, mem := time.Now(), t.mem
	first := mem.tally.First()
	lifted := mem.suspensionLifted(t.sj)
	since := mem.tally.Count(&seen.jobs)
	mem.ownerDoubted = mem.ownerDoubted || since.Disappeared
	edited := mem.templateEdited(t.sj, seen)
	finishes := finishesOf(since.Finished, seen.templateHash)
	switch {
	case edited || lifted: // A user has acted, so that the cause may be gone.
		mem.pause, mem.refusals, mem.failures = scaling.Pause{}, scaling.Refusals{}, 0
	case first && (mem.tally.Total() == 0 || seen.jobs.HasTemplate(seen.templateHash) || t.sj.Status.ObservedGeneration == t.sj.Generation):
		// With Jobs of other templates only, a user has edited the template while the operator was down.
		mem.pause = scaling.ResumePause(report.Limit(&t.sj.Status), report.PausedUntil(&t.sj.Status), now)
		mem.failures = report.FailuresBefore(&t.sj.Status)
	}
	var hasTurn, isFirst bool
	hasTurn, isFirst, mem.quotaTurn = r.memories.takeTurn(t, now)
	if since.MadeRoom || hasTurn {
		mem.refusals.MadeRoom()
	}
	if isFirst && now.Sub(mem.roomMade) >= quotaLagTwice {
		mem.roomMade = now // The quota may still count the deleted Job.
	}
	if seen.queues.err != nil {
		mem.pause.ReadFailed()
	} else {
		state := queueState(&t.spec, seen, r.Gate.Newest(t.sj.UID))
		state.Probes = stillActive(mem.pause.Probes(), seen)
		mem.pause.Saw(state)
	}
	if !first {
		mem.pause.Finished(finishes, now)
	}
}

// stillActive returns which of these ordinals active Jobs have, or Jobs of which it is unknown whether they exist.
func stillActive(ordinals []int64, seen observation) (some []int64) {
	if len(ordinals) == 0 {
		return nil
	}
	for _, job := range seen.jobs.Active {
		if ordinal, _ := jobs.Ordinal(&job.ObjectMeta); slices.Contains(ordinals, ordinal) {
			some = append(some, ordinal)
		}
	}
	for _, lost := range seen.unanswered {
		if slices.Contains(ordinals, lost.Ordinal) {
			some = append(some, lost.Ordinal)
		}
	}
	return some
}

// templateEdited reports whether a user has edited the template since the last reconcile. A changed hash of the same
// generation is no edit.
func (m *memory) templateEdited(sj *scaledjobv1.ScaledJob, seen observation) bool {
	other := m.templateHash != "" && m.templateHash != seen.templateHash
	m.templateHash = seen.templateHash
	return other && seen.before.ObservedGeneration != sj.Generation
}

// queueState converts the observation of the queues into the input of the pause. newest is the highest ordinal that any
// Job has had.
func queueState(spec *scaledjob.Resolved, seen observation, newest int64) scaling.QueueState {
	state := scaling.QueueState{
		Waiting:    seen.queues.counts.Waiting(),
		Depth:      seen.queues.counts.Outstanding(),
		InProgress: scaling.InProgress(spec.Contents(seen.queues.counts), spec.Policy),
		Active:     int64(len(seen.jobs.Active) + len(seen.unanswered)),

		Reliable: seen.events.Reason == verify.ReasonSubscribed || spec.ReportsProgress(),
		GrewAt:   seen.events.LastEvent,
		ShrunkAt: seen.events.LastEnd,
		Since:    seen.events.Since,

		Tracked:   seen.events.Tracking == verify.Tracked,
		Unchanged: seen.events.Unchanged,

		Progress: seen.queues.counts.Progress(),
		Newest:   newest,
		At:       time.Now(),
	}
	if seen.queues.counts.Partial() {
		state.Depth = math.MaxInt64 // A partial count can't show whether messages left.
	}
	return state
}

// finishesOf returns how the Jobs with this template finished, oldest first. Kubernetes stores finish times in whole
// seconds. Among Jobs of the same second, failed Jobs come first: failures only count if no Job has succeeded since.
func finishesOf(finished []*batchv1.Job, template string) []scaling.Finish {
	var ends []scaling.Finish
	for _, job := range finished {
		if jobs.HasTemplate(job, template) {
			ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
			ends = append(ends, scaling.Finish{
				Ordinal: ordinal, Failed: !jobs.Succeeded(job), At: jobs.FinishTime(job),
			})
		}
	}
	slices.SortStableFunc(ends, func(a, b scaling.Finish) int {
		if order := a.At.Compare(b.At); order != 0 || a.Failed == b.Failed {
			return order
		}
		if a.Failed {
			return -1
		}
		return 1
	})
	return ends
}
