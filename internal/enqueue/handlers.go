// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/retry"
)

// SpecChanged accepts updates that change the spec. It also accepts the replacement of a ScaledJob by another of the
// same name, which the cache may show as an update.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// JobHandler requests a reconcile of the ScaledJob that controls a Job, and of the ScaledJob that controlled it before
// an update. It calls finished when the cache first shows that a Job has finished. When an owned Job was deleted, it
// calls freed, and requests a reconcile of the ScaledJobs that this returns, each after its delay.
func JobHandler(
	finished func(owner types.NamespacedName, job *batchv1.Job),
	freed func(namespace string) map[types.NamespacedName]time.Duration,
) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requestQueue) {
			if !e.IsInInitialList {
				reportFinish(nil, e.Object, finished)
			}
			enqueueOwner(queue, e.Object, nil) // handler.Funcs lowers it for the initial list.
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requestQueue) {
			reportFinish(e.ObjectOld, e.ObjectNew, finished)
			enqueueOwner(queue, e.ObjectOld, new(PriorityNormal))
			enqueueOwner(queue, e.ObjectNew, new(PriorityNormal))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue requestQueue) {
			enqueueOwner(queue, e.Object, new(PriorityNormal))
			if _, _, owned := jobs.Owner(e.Object); owned {
				enqueueLater(queue, freed(e.Object.GetNamespace()))
			}
		},
	}
}

// enqueueLater adds requests, each after its delay, and not before its backoff.
func enqueueLater(queue requestQueue, delays map[types.NamespacedName]time.Duration) {
	for key, delay := range delays {
		request := reconcile.Request{NamespacedName: key}
		delay = max(delay, retry.APIServer.After(queue.NumRequeues(request)))
		queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
			priorityqueue.AddOpts{Priority: new(PriorityNormal), After: delay}, request)
	}
}

func enqueueOwner(queue requestQueue, job client.Object, class *int) {
	if owner, _, ok := jobs.Owner(job); ok {
		enqueue(queue, owner, class, 0)
	}
}

// reportFinish calls finished if the Job has finished between before and after. before is nil if the Job is new.
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

// JobChanged accepts the events that change the count of Jobs: a Job was created, deleted, or marked for deletion,
// became ready, was suspended or resumed, finished, or has another owner.
func JobChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*batchv1.Job)
			after, okAfter := e.ObjectNew.(*batchv1.Job)
			return !okBefore || !okAfter || countsOf(before) != countsOf(after)
		},
	}
}

// counts has the properties of a Job that affect the count of Jobs.
type counts struct {
	owner     types.UID
	finished  bool
	ready     bool
	suspended bool
	deleting  bool
}

func countsOf(job *batchv1.Job) counts {
	return counts{
		owner:     jobs.ControllerUID(job),
		finished:  jobs.Finished(job),
		ready:     jobs.Ready(job),
		suspended: jobs.Suspended(job),
		deleting:  job.DeletionTimestamp != nil,
	}
}
