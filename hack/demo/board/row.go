// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// Unknown is the depth of a queue that could not be read.
	Unknown = -1

	// historyLength is how many samples of the depth are kept.
	historyLength = 120
)

// Row is the state of a ScaledJob.
type Row struct {
	// ScaledJob is the object as it was last seen. Do not change it.
	ScaledJob *scaledjobv1.ScaledJob
	// History has samples of the depth of the queue, the oldest first.
	History []int64
	// Unfinished is how many Jobs are neither finished nor deleted.
	Unfinished int
	// Awaiting is true from a push until its first Job is seen.
	Awaiting bool
	// Reaction is the time from the last push until its first Job was seen. It is 0 before the first one.
	Reaction time.Duration
	// InScene counts what has happened since the scene began.
	InScene Tally
}

// Tally has counts for a ScaledJob.
type Tally struct {
	// Pushed is how many messages were pushed.
	Pushed int
	// Due is how many Jobs these messages need, and Created how many were seen.
	Due, Created int
	// Peak is the maximum number of unfinished Jobs at the same time.
	Peak int
	// Killed is how many Jobs were deleted before they finished.
	Killed int
	// Reactions are the times from each push until its first Job was seen.
	Reactions []time.Duration
}

// Depth returns the newest sample of the depth, or [Unknown] if there is none.
func (r Row) Depth() int64 {
	if len(r.History) == 0 {
		return Unknown
	}
	return r.History[len(r.History)-1]
}

// row is a Row that is still updated.
type row struct {
	Row // without the fields that are computed from those below

	seen       map[types.UID]bool
	unfinished map[types.UID]bool
	pushedAt   time.Time // of the push that still waits for its first Job, or zero
}

func newRow(scaledJob *scaledjobv1.ScaledJob) *row {
	return &row{Row: Row{ScaledJob: scaledJob}, seen: map[types.UID]bool{}, unfinished: map[types.UID]bool{}}
}

func (r *row) snapshot() Row {
	snapshot := r.Row
	snapshot.History = slices.Clone(r.History)
	snapshot.Unfinished = len(r.unfinished)
	snapshot.Awaiting = !r.pushedAt.IsZero()
	snapshot.InScene.Reactions = slices.Clip(r.InScene.Reactions)
	return snapshot
}

func (r *row) sample(depth int64) {
	r.History = append(r.History, depth)
	if len(r.History) > historyLength {
		r.History = slices.Delete(r.History, 0, len(r.History)-historyLength)
	}
}

// notePush assumes that the queue is empty.
func (r *row) notePush(messages int, at time.Time) {
	threshold := int(r.ScaledJob.Spec.Threshold)
	r.InScene.Pushed += messages
	r.InScene.Due += (messages + threshold - 1) / threshold
	r.pushedAt = at
}

func (r *row) noteJob(job *batchv1.Job, at time.Time) {
	if !r.seen[job.UID] {
		r.seen[job.UID] = true
		r.InScene.Created++
		r.react(at)
	}
	if finished(job) {
		delete(r.unfinished, job.UID)
	} else {
		r.unfinished[job.UID] = true
	}
	r.InScene.Peak = max(r.InScene.Peak, len(r.unfinished))
}

func (r *row) noteDeleted(uid types.UID) {
	if r.unfinished[uid] {
		delete(r.unfinished, uid)
		r.InScene.Killed++
	}
}

// react records the reaction time of the last push.
func (r *row) react(at time.Time) {
	if r.pushedAt.IsZero() {
		return
	}
	r.Reaction = at.Sub(r.pushedAt)
	r.InScene.Reactions = append(r.InScene.Reactions, r.Reaction)
	r.pushedAt = time.Time{}
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		ends := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		return ends && condition.Status == corev1.ConditionTrue
	})
}
