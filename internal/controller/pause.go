// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// pausing tells the pause what has become of the Jobs and of the queue since the last pass, and says whether creating pauses.
func (r *Reconciler) pausing(sj *scaledjobv1.ScaledJob, mem *memory, seen observation) bool {
	now := time.Now()
	first := mem.tally.First()
	lifted := mem.suspensionLifted(sj)
	since := mem.tally.Count(&seen.jobs)
	mem.ownerDoubted = mem.ownerDoubted || since.Vanished
	edited := mem.templateEdited(sj, seen.templateHash)
	finishes := finishesOf(since.Finished, seen.templateHash)
	switch {
	case edited || lifted: // Somebody has acted: a new beginning.
		mem.pause = scaling.Pause{}
	case first && (mem.tally.Total() == 0 || seen.jobs.HasTemplate(seen.templateHash)): // Else the template was changed meanwhile.
		was, begun := report.Limit(&sj.Status)
		mem.pause = scaling.ResumePause(was, begun, finishes, now)
	}
	if since.MadeRoom {
		mem.pause.MadeRoom()
	}
	if seen.queues.err != nil {
		mem.pause.Unseen()
	} else {
		mem.pause.Saw(r.queueSeen(sj, seen))
	}
	if !first {
		mem.pause.Finished(finishes, now)
	}
	_, holds := mem.pause.Holds(now)
	return holds
}

// templateEdited says whether somebody has edited the template since the pass before. It may read otherwise without that, by a default that
// the CRD has now.
func (m *memory) templateEdited(sj *scaledjobv1.ScaledJob, hash string) bool {
	other := m.templateHash != "" && m.templateHash != hash
	m.templateHash = hash
	return other && m.status.Latest(sj).ObservedGeneration != sj.Generation
}

func (r *Reconciler) queueSeen(sj *scaledjobv1.ScaledJob, seen observation) scaling.QueueState {
	looked := scaling.QueueState{
		Depth:    seen.queues.depth(),
		Heard:    seen.events.Reason == verify.ReasonSubscribed || scaledjob.TellProgress(sj.Spec.AllQueues()),
		GrewAt:   seen.events.LastEvent,
		ShrunkAt: seen.events.LastEnd,
		Since:    seen.events.Since,
		Progress: seen.queues.progress(),
		Newest:   r.Gate.Newest(sj.UID),
	}
	if seen.queues.partial() {
		looked.Depth = math.MaxInt64 // How much of it could be counted says nothing about what was taken.
	}
	return looked
}

// noteCreates tells the pause whether the API server took the Jobs, and returns whether it refused one.
func (m *memory) noteCreates(created int, err error) (refused bool) {
	refused = errors.Is(err, jobcontrol.ErrRefused)
	switch {
	case refused:
		m.pause.Refused(time.Now())
	case created > 0 && err == nil:
		m.pause.Accepted()
	}
	return refused
}

// finishesOf are the ends of those of the Jobs that have this template, in the order of time. Kubernetes keeps whole seconds: of Jobs that
// finished within one, those that failed come first, as they count if nothing has succeeded since.
func finishesOf(finished []*batchv1.Job, template string) []scaling.Finish {
	var ends []scaling.Finish
	for _, job := range finished {
		if jobs.HasTemplate(job, template) {
			ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
			ends = append(ends, scaling.Finish{Ordinal: ordinal, Failed: !jobs.Succeeded(job), At: jobs.FinishTime(job)})
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
