// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Requests adds requests to the work queue without waiting for the controller. The zero value is ready for use.
type Requests struct {
	mu    sync.Mutex
	queue requestQueue
}

// Source returns the source with which the controller passes its work queue. Requests that are added before are
// dropped: no reconcile has run by then.
func (r *Requests) Source() source.Source {
	return source.Func(func(_ context.Context, queue requestQueue) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue = queue
		return nil
	})
}

// Add requests reconciles of ScaledJobs.
func (r *Requests) Add(priority int, keys ...types.NamespacedName) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	if queue == nil {
		return
	}
	for _, key := range keys {
		enqueue(queue, key, priority)
	}
}
