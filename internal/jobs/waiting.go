// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"miracle.dev/scaledjob-operator/internal/moment"
)

// StartTimeout is how long an active Job may have no ready Pod before it counts as one that does not start, or, if it
// had a ready Pod, as one that does not end.
const StartTimeout = time.Minute

// Waiting are the active Jobs that have had no ready Pod, or have been going to be deleted, for at least
// [StartTimeout].
type Waiting struct {
	// Unstarted is the number of those that are suspended, or were never observed with a ready Pod. WithoutPod of these
	// have had no Pod at all, Suspended of these are suspended, and Outdated of these have another template than the
	// current one.
	Unstarted, WithoutPod, Suspended, Outdated int
	// Unended is the number of those that were observed with a ready Pod before. Their Pods have ended, or are not ready
	// any more.
	Unended int
	// Terminating is the number of those that are being deleted for as long.
	Terminating int
}

// Waiting counts the active Jobs that have had no ready Pod for at least [StartTimeout]. hash is that of the current
// template. Waiting also returns when the next Job will have had none for so long; zero if none will.
func (r Readiness) Waiting(active []*batchv1.Job, hash string, now time.Time) (found Waiting, next time.Time) {
	for _, job := range active {
		seen := r[job.UID]
		since := seen.Since
		if job.DeletionTimestamp != nil {
			since = job.DeletionTimestamp.Time
		} else if seen.Ready {
			continue
		}
		if until := since.Add(StartTimeout); now.Before(until) {
			next = moment.First(next, until)
			continue
		}
		found.add(job, seen.EverReady, hash)
	}
	return found, next
}

func (w *Waiting) add(job *batchv1.Job, everReady bool, hash string) {
	switch {
	case job.DeletionTimestamp != nil:
		w.Terminating++
		return
	case everReady && !Suspended(job):
		w.Unended++
		return
	}
	w.Unstarted++
	switch {
	case Suspended(job):
		w.Suspended++
	case job.Status.Active == 0 && endedPods(&job.Status) == 0:
		w.WithoutPod++
	}
	if !HasTemplate(job, hash) {
		w.Outdated++
	}
}
