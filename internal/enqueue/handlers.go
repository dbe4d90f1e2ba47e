// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// SpecChanged lets pass what changes the spec, and one ScaledJob that takes the place of another of the same name, which the cache may show
// as a change of the first.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// JobHandler has the ScaledJob that controls a Job reconciled, and the one that controlled it before, if a user changed that. It calls
// finished when the cache first shows that a Job has finished.
func JobHandler(finished func(owner types.NamespacedName, job *batchv1.Job)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requestQueue) {
			if !e.IsInInitialList {
				reportFinish(nil, e.Object, finished)
			}
			enqueueOwner(queue, e.Object, createPriority(e.IsInInitialList))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requestQueue) {
			reportFinish(e.ObjectOld, e.ObjectNew, finished)
			enqueueOwner(queue, e.ObjectOld, PriorityNormal)
			enqueueOwner(queue, e.ObjectNew, PriorityNormal)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue requestQueue) {
			enqueueOwner(queue, e.Object, PriorityNormal)
		},
	}
}

func createPriority(initial bool) int {
	if initial {
		return PriorityResync
	}
	return PriorityNormal
}

func enqueueOwner(queue requestQueue, job client.Object, priority int) {
	if owner, _, ok := jobs.Owner(job); ok {
		enqueue(queue, owner, priority)
	}
}

// reportFinish calls finished if a Job has finished since it was last seen; before is nil if it was not seen.
func reportFinish(before, after client.Object, finished func(owner types.NamespacedName, job *batchv1.Job)) {
	owner, _, owned := jobs.Owner(after)
	job, ok := after.(*batchv1.Job)
	if !owned || !ok || !jobs.Finished(job) {
		return
	}
	if old, seen := before.(*batchv1.Job); !seen || !jobs.Finished(old) {
		finished(owner, job)
	}
}

// JobChanged lets through the events that change a count: a Job that is new, gone, going, ready, finished, or another's.
func JobChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*batchv1.Job)
			after, okAfter := e.ObjectNew.(*batchv1.Job)
			return !okBefore || !okAfter || countsOf(before) != countsOf(after)
		},
	}
}

// counts is all of a Job that a count depends on.
type counts struct {
	owner    types.UID
	finished bool
	ready    bool
	deleting bool
}

func countsOf(job *batchv1.Job) counts {
	return counts{
		owner:    jobs.ControllerUID(job),
		finished: jobs.Finished(job),
		ready:    jobs.Ready(job),
		deleting: job.DeletionTimestamp != nil,
	}
}
