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
	// Unknown is a depth that could not be read.
	Unknown = -1

	// historyLength is how many samples of the depth are kept.
	historyLength = 120
)

// Row is what is known of a ScaledJob.
type Row struct {
	// ScaledJob is as the operator last reported it. It must not be changed.
	ScaledJob *scaledjobv1.ScaledJob
	// History are samples of the depth of the queue, the oldest first.
	History []int64
	// Unfinished is how many Jobs have neither finished nor gone.
	Unfinished int
	// Awaiting is true from a push to the first sight of a Job of it.
	Awaiting bool
	// Reaction is the time from the last push to the first sight of a Job of it,
	// or 0 before the first.
	Reaction time.Duration
	// InScene is what has happened since the scene began.
	InScene Tally
}

// Tally counts what happens to a ScaledJob.
type Tally struct {
	// Pushed is how many messages were pushed.
	Pushed int
	// Due is how many Jobs those messages are for, and Created how many were seen.
	Due, Created int
	// Peak is the largest number of unfinished Jobs at the same time.
	Peak int
	// Killed is how many Jobs have gone before they finished.
	Killed int
	// Reactions are the times from a push to the first sight of a Job of it.
	Reactions []time.Duration
}

// Depth returns the newest sample of the depth, or Unknown before the first.
func (r Row) Depth() int64 {
	if len(r.History) == 0 {
		return Unknown
	}
	return r.History[len(r.History)-1]
}

// row is a Row in the making.
type row struct {
	Row // but for what follows from the fields below

	seen       map[types.UID]bool
	unfinished map[types.UID]bool
	pushedAt   time.Time // of the push without a reaction yet, or zero
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

// notePush takes it that the queue is empty.
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

// react notes how long the push has waited for its first Job.
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
