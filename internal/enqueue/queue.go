// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/retry"
)

// The classes of requests. They say how long a request may wait for others after it is due: its deadline. The work
// queue serves the earliest deadline first, so that no request waits forever, however many more urgent ones there are.
const (
	// PriorityGrowth is for queues that grew. They may not wait.
	PriorityGrowth = 10
	// PriorityNormal is for edits, Job events, confirmed subscriptions and retries. They may wait for normalPatience.
	PriorityNormal = 0
	// PriorityResync is for the resync and for queues that shrank. They may wait for half of the delay with which they
	// were requested, and for resyncPatience at least. The objects of the initial list also have this class.
	PriorityResync = handler.LowPriority
)

const (
	normalPatience = time.Second
	resyncPatience = 15 * time.Second
	// reservedFraction is the fraction of the workers, 1/8, that is for namespaces that have none.
	reservedFraction = 8
)

// deadline returns the priority of a request that is added after so long: the earlier its deadline, the higher. All
// deadlines are below all classes.
func deadline(class int, delay, now time.Duration) int {
	var patience time.Duration
	switch {
	case class < PriorityNormal:
		patience = max(resyncPatience, delay/2)
	case class < PriorityGrowth:
		patience = normalPatience
	}
	return PriorityResync - 1 - int((now + delay + patience).Milliseconds())
}

// queue is the work queue of the controller. Admission webhooks and Redis servers can make every reconcile of a
// namespace slow, so each namespace has a share of the workers: no more reconciles of it run than workers are free, and
// the last eighth of them is for namespaces that have none. So one namespace has at most half of the workers, two have
// three quarters, and nothing is reserved for namespaces without requests. A request of a namespace that has its share
// is parked until a worker is free for it.
type queue struct {
	workers int
	// started is when deadlines begin to count. Its clock can't be set.
	started time.Time
	// waiting is called with the number of parked requests of a namespace when it changes.
	waiting func(namespace string, requests int)

	mu sync.Mutex
	// delayed are the requests that wait for a backoff because of events, with their classes.
	delayed map[reconcile.Request]int
	// running is the number of reconciles that run, by namespace, and busy is their sum.
	running map[string]int
	busy    int
	// parked are the parked requests by namespace, the most urgent first, and priorities has their priorities.
	parked     map[string][]parked
	priorities map[reconcile.Request]int

	priorityqueue.PriorityQueue[reconcile.Request]
}

// parked is a request that waits until its namespace may have another worker.
type parked struct {
	name     string
	priority int
}

// NewQueue returns how a controller with so many workers makes its work queue. waiting is called with the number of
// requests that wait because their namespace has its share of the workers; it must not block.
func NewQueue(workers int, waiting func(namespace string, requests int)) func(
	name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(
		name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return &queue{
			workers: workers, started: time.Now(), waiting: waiting,
			delayed: map[reconcile.Request]int{}, running: map[string]int{},
			parked: map[string][]parked{}, priorities: map[reconcile.Request]int{},
			PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
		}
	}
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(request reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, request) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// AddWithOpts implements priorityqueue.PriorityQueue. The priority is a class.
func (q *queue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, request := range requests {
		q.add(options, request)
	}
}

// add adds a request. The caller holds the lock.
func (q *queue) add(options priorityqueue.AddOpts, request reconcile.Request) {
	class := PriorityNormal
	if options.Priority != nil && *options.Priority >= PriorityResync { // After a panic, it is the previous deadline.
		class = *options.Priority
	}
	if options.After == afterBackoff {
		options.After = retry.APIServer.After(q.NumRequeues(request))
		if known, ok := q.delayed[request]; options.After > 0 && (!ok || known < class) {
			q.delayed[request] = class
		}
	}
	delay := options.After
	if options.RateLimited {
		delay = retry.APIServer.After(q.NumRequeues(request) + 1)
	}
	options.Priority = new(deadline(class, delay, time.Since(q.started)))
	q.PriorityQueue.AddWithOpts(options, request)
}

// Forget implements workqueue.TypedRateLimitingInterface. The backoff is over, so that events that came during the
// successful reconcile need not wait for it any more.
func (q *queue) Forget(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.PriorityQueue.Forget(request)
	if class, ok := q.delayed[request]; ok {
		delete(q.delayed, request)
		q.add(priorityqueue.AddOpts{Priority: &class}, request)
	}
}

// GetWithPriority implements priorityqueue.PriorityQueue. It returns no request of a namespace that has its share.
func (q *queue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	for {
		request, priority, shutdown = q.PriorityQueue.GetWithPriority()
		if shutdown || q.begin(request, priority) {
			return request, priority, shutdown
		}
		q.PriorityQueue.Done(request)
	}
}

// begin gives the request a worker, or parks it.
func (q *queue) begin(request reconcile.Request, priority int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.unparkOne()
	delete(q.delayed, request) // The reconcile sees what all events before it were about.
	before, isParked := q.priorities[request]
	if !q.fits(request.Namespace) {
		if !isParked || priority > before {
			q.park(request, priority)
		}
		return false
	}
	if isParked {
		q.unpark(request)
	}
	q.running[request.Namespace]++
	q.busy++
	return true
}

// Done implements workqueue.TypedInterface.
func (q *queue) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.unparkOne()
	q.busy--
	if q.running[request.Namespace]--; q.running[request.Namespace] == 0 {
		delete(q.running, request.Namespace)
	}
}

// unparkOne puts the most urgent parked request back that may begin now. The next one follows when this one begins.
func (q *queue) unparkOne() {
	if next, found := q.next(); found {
		priority := q.priorities[next]
		q.unpark(next)
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, next)
	}
}

// fits reports whether a namespace may have another worker.
func (q *queue) fits(namespace string) bool {
	free, has := q.workers-q.busy, q.running[namespace]
	return has == 0 || has < free && free > q.workers/reservedFraction
}

// next returns the most urgent of the parked requests that may begin now.
func (q *queue) next() (next reconcile.Request, found bool) {
	var highest int
	for namespace, waiting := range q.parked {
		if first := waiting[0]; q.fits(namespace) && (!found || first.priority > highest) {
			next.Namespace, next.Name, highest, found = namespace, first.name, first.priority, true
		}
	}
	return next, found
}

// park makes a request wait, or raises its priority if it waits already.
func (q *queue) park(request reconcile.Request, priority int) {
	waiting := q.withoutParked(request)
	entry := parked{request.Name, priority}
	at, _ := slices.BinarySearchFunc(waiting, entry, byUrgency)
	q.setParked(request.Namespace, slices.Insert(waiting, at, entry))
	q.priorities[request] = priority
}

func (q *queue) unpark(request reconcile.Request) {
	q.setParked(request.Namespace, q.withoutParked(request))
	delete(q.priorities, request)
}

// withoutParked returns the parked requests of the namespace except this one.
func (q *queue) withoutParked(request reconcile.Request) []parked {
	waiting := q.parked[request.Namespace]
	if at, found := slices.BinarySearchFunc(waiting, parked{request.Name, q.priorities[request]}, byUrgency); found {
		return slices.Delete(waiting, at, at+1)
	}
	return waiting
}

func (q *queue) setParked(namespace string, waiting []parked) {
	if q.parked[namespace] = waiting; len(waiting) == 0 {
		delete(q.parked, namespace)
	}
	q.waiting(namespace, len(waiting))
}

func byUrgency(a, b parked) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
}
