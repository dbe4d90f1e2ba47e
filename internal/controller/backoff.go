// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/backoff"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/proof"
)

// backOff tells the back-off what has become of the Jobs and of the queue since the last pass, and says whether creating pauses. Another
// template and the end of a suspension are a new beginning.
func (r *Reconciler) backOff(sj *scaledjobv1.ScaledJob, mem *memory, seen observation) (held bool) {
	now := time.Now()
	first := mem.active == nil
	template, changed := mem.templateOf(sj)
	finishes := finishesOf(mem.recount(&seen.jobs), template)
	if first {
		mem.backoff = backoff.Resume(finishes, limitOf(&sj.Status), now)
		finishes = nil
	}
	if changed || hasResumed(sj, mem.latest(sj)) {
		mem.backoff = backoff.Creation{}
	}
	if seen.queueErr != nil {
		mem.backoff.Unseen()
	} else {
		mem.backoff.Saw(backoff.Queue{
			Depth:    seen.depth,
			Heard:    seen.events.Reason == proof.ReasonSubscribed,
			ShrunkAt: seen.events.LastShrink,
			Since:    seen.events.Since,
			Newest:   r.newestOrdinal(sj.UID, seen),
		})
	}
	for _, finish := range finishes {
		finish.At = now
		mem.backoff.Finished(finish)
	}
	_, held = mem.backoff.Holds(now)
	return held
}

// noteCreates tells the back-off whether the API server took the Jobs, and returns whether it refused one.
func (m *memory) noteCreates(created int, err error) (refused bool) {
	if created > 0 {
		m.backoff.Accepted()
	}
	refused = apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	if refused {
		m.backoff.Refused(time.Now())
	}
	return refused
}

// finishesOf are the ends of those of the Jobs that have this template, in the order of time. Kubernetes keeps whole seconds: of Jobs that
// finished within one, those that failed come first, so that they do not count for more than they may be worth.
func finishesOf(finished []*batchv1.Job, template string) []backoff.Finish {
	var ends []backoff.Finish
	for _, job := range finished {
		if jobs.HasTemplate(job, template) {
			ends = append(ends, backoff.Finish{Ordinal: jobs.Ordinal(job), Failed: !jobs.Succeeded(job), At: jobs.FinishTime(job)})
		}
	}
	slices.SortStableFunc(ends, func(a, b backoff.Finish) int {
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

// limitOf is why creating paused by this status.
func limitOf(status *scaledjobv1.ScaledJobStatus) backoff.Reason {
	if limited := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionScalingLimited); limited != nil {
		return backoff.Reason(limited.Reason)
	}
	return backoff.None
}

// hasResumed says whether the ScaledJob is not suspended any more, but was by its last status.
func hasResumed(sj *scaledjobv1.ScaledJob, last *scaledjobv1.ScaledJobStatus) bool {
	ready := apimeta.FindStatusCondition(last.Conditions, scaledjobv1.ConditionReady)
	return !sj.Spec.Suspend && ready != nil && ready.Reason == scaledjobv1.ReasonSuspended
}
