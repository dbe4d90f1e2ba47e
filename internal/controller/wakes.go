// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/wakeup"
)

// The priorities of requests. A request waits for all of higher priority, and the queue knows no aging; see overdue.go.
const (
	// priorityOverdue is for ScaledJobs that others have kept waiting for too long.
	priorityOverdue = 20
	// priorityGrowth is for queues that grew.
	priorityGrowth = 10
	// priorityNormal is for edits, Job events, confirmed subscriptions and retries.
	priorityNormal = 0
	// priorityResync is for the resync and for queues that shrank. It is also that of the objects listed at the start.
	priorityResync = handler.LowPriority
)

// The backoff after errors of the API server.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 30 * time.Second
)

type (
	// requestQueue is the work queue of the controller.
	requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

	// wake asks for a pass over a ScaledJob.
	wake struct {
		key      types.NamespacedName
		priority int
	}

	// Wakes carries wake-ups from the watcher to the work queue, as generic events of a channel source.
	Wakes chan event.TypedGenericEvent[wake]
)

// Deliver passes on what the watcher heard. It waits until the controller takes it, or ctx ends.
func (w Wakes) Deliver(ctx context.Context, heard wakeup.Wake[types.NamespacedName]) {
	w.send(ctx, wake{key: heard.ID, priority: priorityOf(heard.Cause)})
}

func (w Wakes) send(ctx context.Context, wanted wake) {
	select {
	case w <- event.TypedGenericEvent[wake]{Object: wanted}:
	case <-ctx.Done():
	}
}

func priorityOf(cause wakeup.Cause) int {
	switch cause {
	case wakeup.Growth:
		return priorityGrowth
	case wakeup.Confirmed, wakeup.Changed:
		return priorityNormal
	default:
		return priorityResync
	}
}

// enqueue adds a request. If passes over the ScaledJob have failed lately, the request waits as long as the retry does: an event must
// not turn the backoff into a loop, but must not be lost either.
func enqueue(queue requestQueue, key types.NamespacedName, priority int) {
	request := reconcile.Request{NamespacedName: key}
	options := priorityqueue.AddOpts{Priority: &priority, After: retryDelay(queue.NumRequeues(request))}
	queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(options, request)
}

// retryDelay is how long to wait after so many failures in a row.
func retryDelay(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := minBackoff
	for range failures - 1 {
		delay = min(2*delay, maxBackoff)
	}
	return delay
}

// wakeHandler puts the wake-ups on the work queue.
func wakeHandler() handler.TypedEventHandler[wake, reconcile.Request] {
	return handler.TypedFuncs[wake, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[wake], queue requestQueue) {
			enqueue(queue, e.Object.key, e.Object.priority)
		},
	}
}

// jobHandler has the ScaledJob that controls a Job reconciled, and the one that controlled it before, if a user changed that. It calls
// finished when the cache first shows that a Job has finished.
func jobHandler(finished func(owner types.NamespacedName, job *batchv1.Job)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requestQueue) {
			if !e.IsInInitialList {
				reportFinish(nil, e.Object, finished)
			}
			enqueueOwner(queue, e.Object, createPriority(e.IsInInitialList))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requestQueue) {
			reportFinish(e.ObjectOld, e.ObjectNew, finished)
			enqueueOwner(queue, e.ObjectOld, priorityNormal)
			enqueueOwner(queue, e.ObjectNew, priorityNormal)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue requestQueue) {
			enqueueOwner(queue, e.Object, priorityNormal)
		},
	}
}

func createPriority(initial bool) int {
	if initial {
		return priorityResync
	}
	return priorityNormal
}

func enqueueOwner(queue requestQueue, job client.Object, priority int) {
	if owner, ok := ownerOf(job); ok {
		enqueue(queue, owner, priority)
	}
}

// ownerOf is the ScaledJob that controls a Job.
func ownerOf(job client.Object) (owner types.NamespacedName, ok bool) {
	reference := metav1.GetControllerOfNoCopy(job)
	if reference == nil || reference.Kind != "ScaledJob" || reference.APIVersion != scaledjobv1.GroupVersion.String() {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: job.GetNamespace(), Name: reference.Name}, true
}

// reportFinish calls finished if a Job has finished since it was last seen; before is nil if it was not seen.
func reportFinish(before, after client.Object, finished func(owner types.NamespacedName, job *batchv1.Job)) {
	owner, owned := ownerOf(after)
	job, ok := after.(*batchv1.Job)
	if !owned || !ok || !jobs.Finished(job) {
		return
	}
	if old, seen := before.(*batchv1.Job); !seen || !jobs.Finished(old) {
		finished(owner, job)
	}
}

// jobChanged lets through the events that change a count: a Job that is new, gone, going, ready, finished, or another's.
func jobChanged() predicate.Predicate {
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
