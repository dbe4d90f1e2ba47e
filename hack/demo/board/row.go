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
	// Unknown is the sample of a depth that could not be read.
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
	// Created is how many Jobs have been seen, and Unfinished how many of them
	// have neither finished nor gone.
	Created, Unfinished int
	// Peak is the largest number of unfinished Jobs since the scene began.
	Peak int
	// Killed is how many Jobs have gone before they finished.
	Killed int
	// Awaiting is true from a push to the first sight of a Job of it.
	Awaiting bool
	// Reactions are the times from a push to the first sight of a Job of it.
	Reactions []time.Duration
}

// Reaction returns the last of the reactions, or 0 before the first.
func (r Row) Reaction() time.Duration {
	if len(r.Reactions) == 0 {
		return 0
	}
	return r.Reactions[len(r.Reactions)-1]
}

// row is a Row in the making.
type row struct {
	scaledJob  *scaledjobv1.ScaledJob
	history    []int64
	seen       map[types.UID]bool
	unfinished map[types.UID]bool
	peak       int
	killed     int
	pushedAt   time.Time // of the push without a reaction yet, or zero
	reactions  []time.Duration
}

func newRow(scaledJob *scaledjobv1.ScaledJob) *row {
	return &row{scaledJob: scaledJob, seen: map[types.UID]bool{}, unfinished: map[types.UID]bool{}}
}

func (r *row) snapshot() Row {
	return Row{
		ScaledJob:  r.scaledJob,
		History:    slices.Clone(r.history),
		Created:    len(r.seen),
		Unfinished: len(r.unfinished),
		Peak:       r.peak,
		Killed:     r.killed,
		Awaiting:   !r.pushedAt.IsZero(),
		Reactions:  slices.Clip(r.reactions),
	}
}

func (r *row) sample(depth int64) {
	r.history = append(r.history, depth)
	if len(r.history) > historyLength {
		r.history = slices.Delete(r.history, 0, len(r.history)-historyLength)
	}
}

func (r *row) noteJob(job *batchv1.Job, at time.Time) {
	if !r.seen[job.UID] {
		r.seen[job.UID] = true
		r.react(at)
	}
	if finished(job) {
		delete(r.unfinished, job.UID)
	} else {
		r.unfinished[job.UID] = true
	}
	r.peak = max(r.peak, len(r.unfinished))
}

func (r *row) noteDeleted(uid types.UID) {
	if r.unfinished[uid] {
		delete(r.unfinished, uid)
		r.killed++
	}
}

// react notes how long the push has waited for its first Job.
func (r *row) react(at time.Time) {
	if r.pushedAt.IsZero() {
		return
	}
	r.reactions = append(r.reactions, at.Sub(r.pushedAt))
	r.pushedAt = time.Time{}
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		ends := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		return ends && condition.Status == corev1.ConditionTrue
	})
}
