// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/retry"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

var emails = types.NamespacedName{Namespace: "mail", Name: "emails"}

func requestOf(key types.NamespacedName) reconcile.Request {
	return reconcile.Request{NamespacedName: key}
}

// workQueue is a work queue like the controller's.
type workQueue struct {
	Gomega
	*queue
}

// withQueue runs a test with a work queue and a fake clock.
func withQueue(t *testing.T, test func(context.Context, *workQueue)) {
	t.Helper()
	bubble.Run(t, func(t *testing.T, g Gomega) { test(t.Context(), newWorkQueue(t, g)) })
}

func newWorkQueue(t *testing.T, g Gomega) *workQueue {
	t.Helper()
	queue := newQueue(32, func(string, int) {})
	t.Cleanup(queue.ShutDown)
	return &workQueue{g, queue}
}

// newQueue returns the work queue of a controller with so many workers.
func newQueue(workers int, waiting func(namespace string, requests int)) *queue {
	return NewQueue(workers, waiting)("", RateLimiter()).(*queue)
}

// next returns the next request, the time from now to its deadline, and how long it took to arrive.
func (q *workQueue) next() (key types.NamespacedName, patience, waited time.Duration) {
	start := time.Now()
	request, priority, _ := q.GetWithPriority()
	deadline := q.started.Add(time.Duration(PriorityResync-1-priority) * time.Millisecond)
	return request.NamespacedName, time.Until(deadline), time.Since(start)
}

// add adds a request for a ScaledJob, as for an event.
func (q *workQueue) add(key types.NamespacedName, class int) { enqueue(q, key, &class, 0) }

// fail requests the retry of a failed reconcile, like the controller.
func (q *workQueue) fail(key types.NamespacedName) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: new(PriorityNormal)}, requestOf(key))
	q.Done(requestOf(key))
}

// succeed requests the next reconcile after the interval, like the controller after a successful reconcile.
func (q *workQueue) succeed(key types.NamespacedName, interval time.Duration) {
	q.Forget(requestOf(key))
	q.AddWithOpts(priorityqueue.AddOpts{After: interval, Priority: new(PriorityResync)}, requestOf(key))
	q.Done(requestOf(key))
}

// failTimes makes consecutive reconciles of the ScaledJob fail, and leaves the last retry pending.
func (q *workQueue) failTimes(key types.NamespacedName, failures int) {
	q.add(key, PriorityNormal)
	for range failures {
		q.next()
		q.fail(key)
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(retry.APIServer.After(0)).To(BeZero())

	// An event must wait as long as the retry does.
	limiter := RateLimiter()
	for failures := 1; failures <= 100; failures++ {
		g.Expect(retry.APIServer.After(failures)).To(Equal(limiter.When(requestOf(emails))),
			"after %d failures", failures)
	}
	g.Expect(retry.APIServer.After(1)).To(Equal(50 * time.Millisecond))
	g.Expect(retry.APIServer.After(100)).To(Equal(30 * time.Second))
}

// An event replaces a pending resync.
func TestEnqueueBeforeTheResync(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.add(emails, PriorityNormal)
		q.next()
		q.succeed(emails, 30*time.Second)
		time.Sleep(5 * time.Second)

		q.add(emails, PriorityGrowth)

		_, patience, waited := q.next()
		q.Expect(patience).To(BeZero())
		q.Expect(waited).To(BeZero())
		q.succeed(emails, 30*time.Second)
		_, patience, waited = q.next()
		q.Expect(patience).To(Equal(resyncPatience), "the next resync has the deadline of a resync")
		q.Expect(waited).To(Equal(30*time.Second), "the previous resync was replaced")
	})
}

func TestEnqueueDuringBackoff(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		retry := retry.APIServer.After(5)
		time.Sleep(retry / 4)

		for range 100 {
			q.add(emails, PriorityGrowth)
		}

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retry-retry/4), "the request comes with the retry, not before")
		q.Done(requestOf(emails))
		synctest.Wait()
		q.Expect(q.Len()).To(BeZero(), "the request comes only once")
	})
}

// An event during a failing reconcile is neither processed immediately nor lost.
func TestEnqueueDuringAFailingPass(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		q.next()

		q.add(emails, PriorityGrowth)
		q.fail(emails)

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retry.APIServer.After(5)), "the delay of the previous retry")
	})
}

// An event during a successful retry waits neither for the backoff nor for the resync.
func TestEnqueueDuringASuccessfulRetry(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 10)
		q.next()

		q.add(emails, PriorityGrowth)
		q.add(emails, PriorityNormal)
		q.succeed(emails, 30*time.Second)

		_, patience, waited := q.next()
		q.Expect(patience).To(BeZero())
		q.Expect(waited).To(BeZero())
		q.succeed(emails, 30*time.Second)
		q.add(emails, PriorityGrowth)
		_, _, waited = q.next()
		q.Expect(waited).To(BeZero(), "the backoff was reset")
	})
}

// The retry does the work of the events that came before it. When it succeeds, nothing is left to do.
func TestEnqueueBeforeASuccessfulRetry(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 10)
		q.add(emails, PriorityGrowth)
		q.next()
		q.succeed(emails, 30*time.Second)

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(30 * time.Second))
	})
}

func TestWakesDeliver(t *testing.T) {
	withQueue(t, func(ctx context.Context, q *workQueue) {
		for cause, want := range map[coalesce.Cause]time.Duration{
			coalesce.Growth: 0, coalesce.Confirmed: normalPatience, coalesce.Shrink: resyncPatience,
		} {
			wakes := NewWakes()
			wakes.Deliver(coalesce.Wake{ID: coalesce.ID(emails), Cause: cause})

			wakes.handle(ctx, <-wakes.events, q)

			key, patience, _ := q.next()
			q.Expect(key).To(Equal(emails))
			q.Expect(patience).To(Equal(want))
			q.Done(requestOf(key))
		}
	})
}

// A wake-up that is due later becomes a request that is due later, and an earlier one brings it forward.
func TestWakesWaitInTheQueue(t *testing.T) {
	withQueue(t, func(ctx context.Context, q *workQueue) {
		wakes := NewWakes()
		for _, after := range []time.Duration{time.Second, 25 * time.Millisecond} {
			wakes.Deliver(coalesce.Wake{ID: coalesce.ID(emails), Cause: coalesce.Growth, After: after})
			wakes.handle(ctx, <-wakes.events, q)
		}
		_, patience, waited := q.next()
		q.Expect(waited).To(Equal(25 * time.Millisecond))
		q.Expect(patience).To(BeZero())
		q.Done(requestOf(emails))
		synctest.Wait()
		q.Expect(q.Len()).To(BeZero(), "they have merged")
	})
}

// A wake-up that is due later waits for the backoff, if there is one.
func TestWakesWaitForTheBackoff(t *testing.T) {
	withQueue(t, func(ctx context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		synctest.Wait()
		wakes := NewWakes()
		wakes.Deliver(coalesce.Wake{ID: coalesce.ID(emails), Cause: coalesce.Growth, After: time.Millisecond})
		wakes.handle(ctx, <-wakes.events, q)
		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retry.APIServer.After(5)))
	})
}

// Nobody receives wake-ups before the controller has started, and slow requests must not hold up who delivers them.
func TestWakesAreKeptUntilSomebodyReceivesThem(t *testing.T) {
	withQueue(t, func(ctx context.Context, q *workQueue) {
		const many = 5000
		wakes, want, got := NewWakes(), map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
		for i := range many {
			key := types.NamespacedName{Namespace: "mail", Name: strconv.Itoa(i)}
			wakes.Deliver(coalesce.Wake{ID: coalesce.ID(key), Cause: coalesce.Growth})
			want[key] = true
		}
		q.Expect(wakes.Source().Start(ctx, q)).To(Succeed())
		synctest.Wait()
		for range many {
			key, _, _ := q.next()
			got[key] = true
			q.Done(requestOf(key))
		}
		q.Expect(got).To(Equal(want))
	})
}

// Whoever delivers and receives at the same time, every wake-up arrives.
func TestNoWakeIsLostBetweenThoseWhoDeliver(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	queue := newQueue(1, func(string, int) {})
	defer queue.ShutDown()
	wakes := NewWakes()
	g.Expect(wakes.Source().Start(ctx, queue)).To(Succeed())
	const deliverers, each = 4, 2000
	var delivering sync.WaitGroup
	for n := range deliverers {
		delivering.Go(func() {
			for i := range each {
				wakes.Deliver(coalesce.Wake{ID: coalesce.ID{Name: strconv.Itoa(n*each + i)}, Cause: coalesce.Growth})
			}
		})
	}
	seen := map[string]bool{}
	for len(seen) < deliverers*each {
		request, _, _ := queue.GetWithPriority()
		seen[request.Name] = true
		queue.Done(request)
	}
	delivering.Wait()
}

// BenchmarkMarkToWorker measures the first event of a queue after a quiet time, from when it is marked until a worker
// has the request.
func BenchmarkMarkToWorker(b *testing.B) {
	queue := newQueue(32, func(string, int) {})
	defer queue.ShutDown()
	wakes := NewWakes()
	NewWithT(b).Expect(wakes.Source().Start(b.Context(), queue)).To(Succeed())
	throttle, id := coalesce.NewThrottle(wakes.Deliver, func() { /* not counted */ }), coalesce.ID(emails)
	for b.Loop() {
		throttle.Add(id)
		throttle.Request(id, coalesce.Growth)
		request, _, _ := queue.GetWithPriority()
		throttle.Serve(id)
		queue.Forget(request)
		queue.Done(request)
		throttle.Remove(id)
	}
}
