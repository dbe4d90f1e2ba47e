// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package enqueue requests reconciles of ScaledJobs: it adds requests to the work queue of the controller, with a delay
// and a priority.
//
// Requests come from the watcher, as [Wakes], from events of Jobs, from the result of the previous reconcile, and from
// [Deadlines] for requests that have waited too long. A request does not carry its cause.
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

// The priorities of requests. A request waits for all requests of higher priority. The work queue does not raise the
// priority of waiting requests; see [Deadlines].
const (
	// PriorityOverdue is for requests that have waited too long behind others.
	PriorityOverdue = 20
	// PriorityGrowth is for queues that grew.
	PriorityGrowth = 10
	// PriorityNormal is for edits, Job events, confirmed subscriptions and retries.
	PriorityNormal = 0
	// PriorityResync is for the resync and for queues that shrank. The objects of the initial list also have it.
	PriorityResync = handler.LowPriority
)

type (
	// requestQueue is the work queue of the controller.
	requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

	// wake requests a reconcile of a ScaledJob.
	wake struct {
		key      types.NamespacedName
		priority int
	}

	// Wakes carries wake-ups from the watcher to the work queue, as generic events of a channel source.
	Wakes chan event.TypedGenericEvent[wake]
)

// Deliver sends a wake-up of the watcher to the controller. It blocks until the controller receives it, or ctx ends.
func (w Wakes) Deliver(ctx context.Context, from coalesce.Wake) {
	w.send(ctx, wake{key: types.NamespacedName(from.ID), priority: priorityOf(from.Cause)})
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

// After returns a result that requests the next reconcile. It always sets the priority: otherwise the request would
// keep the priority of the event that caused this reconcile.
func After(delay time.Duration, priority int) reconcile.Result {
	return reconcile.Result{RequeueAfter: delay, Priority: &priority}
}

// afterBackoff is a delay that stands for the current backoff of the ScaledJob, which only the work queue knows for
// certain.
const afterBackoff time.Duration = -1

// enqueue adds a request. After failed reconciles of the ScaledJob, the request waits for the backoff: events must
// neither bypass the backoff nor be lost.
func enqueue(queue requestQueue, key types.NamespacedName, priority int) {
	queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
		priorityqueue.AddOpts{Priority: &priority, After: afterBackoff}, reconcile.Request{NamespacedName: key})
}

// RateLimiter delays retries with an exponential backoff per ScaledJob.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		retry.APIServer.First, retry.APIServer.Longest)
}

// Source returns the source that adds the wake-ups to the work queue of a controller.
func (w Wakes) Source() source.Source { return source.TypedChannel(w, wakeHandler()) }

func wakeHandler() handler.TypedEventHandler[wake, reconcile.Request] {
	return handler.TypedFuncs[wake, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[wake], queue requestQueue) {
			enqueue(queue, e.Object.key, e.Object.priority)
		},
	}
}
