// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// jobRecord is what a watch of Jobs has shown, from the first one on. It is
// safe for concurrent use.
type jobRecord struct {
	mu      sync.Mutex
	seen    map[types.UID]bool
	seenAt  []time.Time // when each Job was first seen, in that order
	active  map[types.UID]bool
	peak    int           // the largest number of active Jobs
	changed chan struct{} // closed by the next change
}

func newJobRecord() *jobRecord {
	return &jobRecord{
		seen:    map[types.UID]bool{},
		active:  map[types.UID]bool{},
		changed: make(chan struct{}),
	}
}

// handler notes what an informer of Jobs tells.
func (r *jobRecord) handler() toolscache.ResourceEventHandler {
	note := func(object any) {
		if job, isJob := object.(*batchv1.Job); isJob {
			r.note(job, time.Now())
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, object any) { note(object) },
	}
}

func (r *jobRecord) note(job *batchv1.Job, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[job.UID] {
		r.seen[job.UID] = true
		r.seenAt = append(r.seenAt, at)
	}
	if finished(job) {
		delete(r.active, job.UID)
	} else {
		r.active[job.UID] = true
	}
	r.peak = max(r.peak, len(r.active))
	close(r.changed)
	r.changed = make(chan struct{})
}

func finished(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		ends := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if ends && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// sightings returns when each Job after the first skip ones was seen.
func (r *jobRecord) sightings(skip int) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time(nil), r.seenAt[skip:]...)
}

func (r *jobRecord) peakActive() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peak
}

// awaitSeen returns when n Jobs have been seen.
func (r *jobRecord) awaitSeen(ctx context.Context, n int) error {
	return r.await(ctx, func() bool { return len(r.seenAt) >= n })
}

// awaitFinished returns when all Jobs seen have finished.
func (r *jobRecord) awaitFinished(ctx context.Context) error {
	return r.await(ctx, func() bool { return len(r.active) == 0 })
}

// await returns when the condition, which is asked with the lock held, is true.
func (r *jobRecord) await(ctx context.Context, condition func() bool) error {
	for {
		r.mu.Lock()
		met, changed := condition(), r.changed
		r.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
