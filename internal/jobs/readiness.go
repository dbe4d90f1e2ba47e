// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/internal/moment"
)

// Readiness records, for each active Job, what reconciles have observed of its ready Pods. Kubernetes reports only
// whether a Job has a ready Pod now. The record is lost in a restart.
type Readiness map[types.UID]Observed

// Observed is what is known of the ready Pods of a Job.
type Observed struct {
	// Ready is true if the Job has a ready Pod. Since is when that was first observed, or its opposite if it has none.
	Ready bool
	Since time.Time
	// EverReady is true if a ready Pod was observed at any time. FromStart is true if this process has created the Job, so
	// that no earlier process can have observed one.
	EverReady, FromStart bool
}

// Created adds a Job that this process has created. It has no Pod yet.
func (r *Readiness) Created(uid types.UID, at time.Time) {
	if *r == nil {
		*r = Readiness{}
	}
	(*r)[uid] = Observed{Since: at, FromStart: true}
}

// Observe updates the record, and removes the Jobs that are no longer active.
func (r *Readiness) Observe(active []*batchv1.Job, now time.Time) {
	if *r == nil {
		*r = make(Readiness, len(active))
	}
	for _, job := range active {
		before, known := (*r)[job.UID]
		if is := before.next(job, known, now); !known || is != before {
			(*r)[job.UID] = is
		}
	}
	if len(*r) > len(active) {
		r.keep(active)
	}
}

// next returns what is known of a Job after it was observed once more. known is false the first time.
func (o Observed) next(job *batchv1.Job, known bool, now time.Time) Observed {
	ready := Ready(job)
	o.EverReady = o.EverReady || hasReadyPod(job)
	if !known || ready != o.Ready {
		o.Ready, o.Since = ready, now
	}
	if !known && !o.EverReady && endedPods(&job.Status) == 0 {
		o.Since = job.CreationTimestamp.Time // It has had no Pod that could have been ready.
	}
	return o
}

// keep removes all but these Jobs.
func (r *Readiness) keep(active []*batchv1.Job) {
	kept := make(Readiness, len(active))
	for _, job := range active {
		kept[job.UID] = (*r)[job.UID]
	}
	*r = kept
}

// Claimed returns how many of the active Jobs have been ready for at least grace, and when the next Job will have been;
// zero if none will. A Job whose Pod has been ready for long enough is assumed to have taken its messages from the
// queue; Redis and Kubernetes do not report that. After a restart, until a Job has been ready for long enough again, it
// counts as not having taken messages, so that there may be fewer Jobs than due, but never more. The time of a Job that
// is no longer ready starts again, because its next Pod takes messages again.
func (r Readiness) Claimed(grace time.Duration, now time.Time) (claimed int, next time.Time) {
	for seen := range maps.Values(r) {
		switch until := seen.Since.Add(grace); {
		case !seen.Ready:
		case !now.Before(until):
			claimed++
		default:
			next = moment.First(next, until)
		}
	}
	return claimed, next
}

// Unstarted returns those of the Jobs that have certainly never had a ready Pod, as far as their status shows.
func (r Readiness) Unstarted(list []*batchv1.Job) []*batchv1.Job {
	return slices.DeleteFunc(slices.Clone(list), func(job *batchv1.Job) bool { return !r.NeverReady(job) })
}

// NeverReady reports whether the Job has certainly never had a ready Pod, as far as its status shows: this process has
// observed it since its creation, or it has no Pod. It returns false for a Job of an earlier process that has a Pod.
func (r Readiness) NeverReady(job *batchv1.Job) bool {
	seen, status := r[job.UID], &job.Status
	if seen.EverReady || hasReadyPod(job) || endedPods(status) > 0 {
		return false
	}
	return seen.FromStart || status.Active == 0 && (status.Terminating == nil || *status.Terminating == 0)
}

// endedPods returns how many Pods of the Job have ended, including those that Kubernetes has not counted yet.
func endedPods(status *batchv1.JobStatus) int {
	ended := int(status.Succeeded) + int(status.Failed)
	if uncounted := status.UncountedTerminatedPods; uncounted != nil {
		ended += len(uncounted.Succeeded) + len(uncounted.Failed)
	}
	return ended
}
