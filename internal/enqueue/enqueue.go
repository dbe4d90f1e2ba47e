// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package enqueue requests reconciles of ScaledJobs. It has the work queue of the controller, and the ways into it:
// wake-ups of the watcher, as [Wakes], events of Jobs, and results of reconciles. A request does not carry its cause.
//
//	enqueue.go   wake-ups, and results of reconciles
//	handlers.go  events of ScaledJobs and Jobs
//	queue.go     in which order requests are served, and how many of a namespace at the same time
package enqueue

import (
	"context"
	"sync"
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

type (
	// requestQueue is the work queue of the controller.
	requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

	// wake requests a reconcile of a ScaledJob.
	wake struct {
		key   types.NamespacedName
		class int
		after time.Duration
	}

	// Wakes carries wake-ups from the watcher to the work queue, as generic events of a channel source.
	Wakes struct {
		events chan event.TypedGenericEvent[wake]

		mu sync.Mutex
		// more are wake-ups that came while there was an event in the channel already. The handler of that event, or of the
		// one after it, takes them.
		more []wake
	}
)

// NewWakes returns a channel of wake-ups.
func NewWakes() *Wakes { return &Wakes{events: make(chan event.TypedGenericEvent[wake], 1)} }

// Deliver sends a wake-up of the watcher to the work queue. It never blocks.
func (w *Wakes) Deliver(from coalesce.Wake) {
	wanted := wake{key: types.NamespacedName(from.ID), class: classOf(from.Cause), after: from.After}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.events <- event.TypedGenericEvent[wake]{Object: wanted}:
	default:
		w.more = append(w.more, wanted)
	}
}

// handle adds the wake-up of an event to the work queue, and those that came after it.
func (w *Wakes) handle(_ context.Context, e event.TypedGenericEvent[wake], queue requestQueue) {
	w.mu.Lock()
	more := w.more
	w.more = nil
	w.mu.Unlock()
	enqueue(queue, e.Object.key, &e.Object.class, e.Object.after)
	for _, each := range more {
		enqueue(queue, each.key, &each.class, each.after)
	}
}

func classOf(cause coalesce.Cause) int {
	switch cause {
	case coalesce.Growth:
		return PriorityGrowth
	case coalesce.Confirmed, coalesce.Changed:
		return PriorityNormal
	default:
		return PriorityResync
	}
}

// After returns a result that requests the next reconcile. It always sets the class: otherwise the request would keep
// the deadline of the one that caused this reconcile.
func After(delay time.Duration, class int) reconcile.Result {
	return reconcile.Result{RequeueAfter: delay, Priority: &class}
}

// afterBackoff is a delay that stands for the current backoff of the ScaledJob, which only the work queue knows for
// certain.
const afterBackoff time.Duration = -1

// enqueue adds a request that is due after a delay. After failed reconciles of the ScaledJob, the request waits for the
// backoff instead: events must neither bypass the backoff nor be lost.
func enqueue(queue requestQueue, key types.NamespacedName, class *int, delay time.Duration) {
	request := reconcile.Request{NamespacedName: key}
	if delay == 0 || queue.NumRequeues(request) > 0 {
		delay = afterBackoff
	}
	queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
		priorityqueue.AddOpts{Priority: class, After: delay}, request)
}

// RateLimiter delays retries with an exponential backoff per ScaledJob.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		retry.APIServer.First, retry.APIServer.Longest)
}

// Source returns the source that adds the wake-ups to the work queue of a controller.
func (w *Wakes) Source() source.Source {
	return source.TypedChannel(w.events, handler.TypedFuncs[wake, reconcile.Request]{GenericFunc: w.handle})
}
