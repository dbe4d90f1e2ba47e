// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/retry"
)

const (
	// overdueInterval is the interval of the search for overdue requests.
	overdueInterval = time.Second
	// longestWait is how long a request may wait, and half of its delay if that is longer. Then it is overdue.
	longestWait = time.Second
	// overdueAtOnce is the maximum number of requests that a search moves ahead. If more are overdue all the time,
	// the operator has too few resources; growing queues must not wait for all of them.
	overdueAtOnce = 100
)

// Deadlines tracks how long requests may wait in the work queue, which always serves the highest priority first. Without
// deadlines, queues that grow all the time would hold up all other requests for as long as they grow: finished Jobs,
// edits, statuses and the resync of the other ScaledJobs. The zero value is ready for use. Deadlines is safe for
// concurrent use.
type Deadlines struct {
	mu sync.Mutex
	by map[types.NamespacedName]time.Time
}

// expect sets the deadline of a request that may be served after a delay, unless it has an earlier one.
func (d *Deadlines) expect(key types.NamespacedName, delay time.Duration) {
	by := time.Now().Add(delay + max(longestWait, delay/2))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[types.NamespacedName]time.Time{}
	}
	if present, ok := d.by[key]; !ok || by.Before(present) {
		d.by[key] = by
	}
}

// served removes the deadline of a request that is served now.
func (d *Deadlines) served(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, key)
}

// Promote gives overdue requests the highest priority, until ctx ends.
func (d *Deadlines) Promote(ctx context.Context, wakes Wakes) {
	ticker := time.NewTicker(overdueInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			late := d.overdue(now)
			for _, key := range late[:min(len(late), overdueAtOnce)] {
				wakes.send(ctx, wake{key: key, priority: PriorityOverdue})
			}
		}
	}
}

// overdue returns the requests whose deadline has passed, the longest overdue first. The namespaces take turns.
func (d *Deadlines) overdue(now time.Time) []types.NamespacedName {
	type late struct {
		key types.NamespacedName
		by  time.Time
		// turn is the number of requests of its namespace that are overdue for longer.
		turn int
	}
	var all []late
	d.mu.Lock()
	for key, by := range d.by {
		if now.After(by) {
			all = append(all, late{key: key, by: by})
		}
	}
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b late) int { return a.by.Compare(b.by) })
	turns := map[string]int{}
	for i := range all {
		all[i].turn = turns[all[i].key.Namespace]
		turns[all[i].key.Namespace]++
	}
	slices.SortStableFunc(all, func(a, b late) int { return cmp.Compare(a.turn, b.turn) })
	keys := make([]types.NamespacedName, len(all))
	for i, each := range all {
		keys[i] = each.key
	}
	return keys
}

// NewQueue returns the work queue for a controller. Its requests have deadlines, except those for queues that grew, which
// go first anyway.
func (d *Deadlines) NewQueue(
	name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return &watchedQueue{
		deadlines:     d,
		delayed:       map[reconcile.Request]int{},
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
	}
}

// watchedQueue is a work queue that notes what waits in it.
type watchedQueue struct {
	deadlines *Deadlines

	mu sync.Mutex
	// delayed are the requests that wait for a backoff because of events, with their priorities.
	delayed map[reconcile.Request]int

	priorityqueue.PriorityQueue[reconcile.Request]
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *watchedQueue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, request := range requests {
		q.add(options, request)
	}
}

// add adds a request. The caller holds the lock.
func (q *watchedQueue) add(options priorityqueue.AddOpts, request reconcile.Request) {
	if options.After == afterBackoff {
		options.After = retry.APIServer.After(q.NumRequeues(request))
		if known, ok := q.delayed[request]; options.After > 0 && (!ok || known < *options.Priority) {
			q.delayed[request] = *options.Priority
		}
	}
	if options.Priority == nil || *options.Priority < PriorityGrowth {
		delay := options.After
		if options.RateLimited {
			delay = max(delay, retry.APIServer.After(q.NumRequeues(request)+1))
		}
		q.deadlines.expect(request.NamespacedName, delay)
	}
	q.PriorityQueue.AddWithOpts(options, request)
}

// Forget implements workqueue.TypedRateLimitingInterface. The backoff is over, so that events that came during the
// successful reconcile need not wait for it any more.
func (q *watchedQueue) Forget(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.PriorityQueue.Forget(request)
	if priority, ok := q.delayed[request]; ok {
		delete(q.delayed, request)
		q.add(priorityqueue.AddOpts{Priority: &priority}, request)
	}
}

// Add implements workqueue.TypedInterface.
func (q *watchedQueue) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// GetWithPriority implements priorityqueue.PriorityQueue. The reconcile that begins now sees what all events before it
// were about.
func (q *watchedQueue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	request, priority, shutdown = q.PriorityQueue.GetWithPriority()
	q.deadlines.served(request.NamespacedName)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.delayed, request)
	return request, priority, shutdown
}
