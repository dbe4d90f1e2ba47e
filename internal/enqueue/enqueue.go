// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package enqueue asks for passes over ScaledJobs: which request is put on the work queue of the controller, when, and with which priority.
//
// Requests come from the watcher, as [Wakes], from events of Jobs, from the result of the pass before, and from [Deadlines] where others
// have kept a ScaledJob waiting. None of them says why it was made.
package enqueue

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/retry"
)

// The priorities of requests. A request waits for all of higher priority, and the queue knows no aging; see [Deadlines].
const (
	// PriorityOverdue is for ScaledJobs that others have kept waiting for too long.
	PriorityOverdue = 20
	// PriorityGrowth is for queues that grew.
	PriorityGrowth = 10
	// PriorityNormal is for edits, Job events, confirmed subscriptions and retries.
	PriorityNormal = 0
	// PriorityResync is for the resync and for queues that shrank. It is also that of the objects listed at the start.
	PriorityResync = handler.LowPriority
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
func (w Wakes) Deliver(ctx context.Context, heard coalesce.Wake) {
	w.send(ctx, wake{key: types.NamespacedName(heard.ID), priority: priorityOf(heard.Cause)})
}

func (w Wakes) send(ctx context.Context, wanted wake) {
	select {
	case w <- event.TypedGenericEvent[wake]{Object: wanted}:
	case <-ctx.Done():
	}
}

func priorityOf(cause coalesce.Cause) int {
	switch cause {
	case coalesce.Growth:
		return PriorityGrowth
	case coalesce.Confirmed, coalesce.Changed:
		return PriorityNormal
	default:
		return PriorityResync
	}
}

// After asks for another pass. The priority is always said: a request would otherwise keep that of the event which brought it.
func After(delay time.Duration, priority int) reconcile.Result {
	return reconcile.Result{RequeueAfter: delay, Priority: &priority}
}

// enqueue adds a request. If passes over the ScaledJob have failed lately, the request waits as long as the retry does: an event must
// not turn the backoff into a loop, but must not be lost either.
func enqueue(queue requestQueue, key types.NamespacedName, priority int) {
	request := reconcile.Request{NamespacedName: key}
	options := priorityqueue.AddOpts{Priority: &priority, After: retry.APIServer.After(queue.NumRequeues(request))}
	queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(options, request)
}

// RateLimiter delays retries, each ScaledJob's by its own failures.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retry.APIServer.First, retry.APIServer.Longest)
}

// Source puts the wake-ups on the work queue of a controller.
func (w Wakes) Source() source.Source { return source.TypedChannel(w, wakeHandler()) }

func wakeHandler() handler.TypedEventHandler[wake, reconcile.Request] {
	return handler.TypedFuncs[wake, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[wake], queue requestQueue) {
			enqueue(queue, e.Object.key, e.Object.priority)
		},
	}
}
