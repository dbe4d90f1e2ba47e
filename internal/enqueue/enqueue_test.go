// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/retry"
)

var emails = types.NamespacedName{Namespace: "mail", Name: "emails"}

func requestOf(key types.NamespacedName) reconcile.Request {
	return reconcile.Request{NamespacedName: key}
}

// workQueue is a work queue like the controller's.
type workQueue struct {
	Gomega
	priorityqueue.PriorityQueue[reconcile.Request]
}

// withQueue runs a test with a work queue and a fake clock.
func withQueue(t *testing.T, test func(context.Context, *workQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		queue := new(Deadlines).NewQueue("", RateLimiter()).(priorityqueue.PriorityQueue[reconcile.Request])
		defer queue.ShutDown()
		test(t.Context(), &workQueue{NewWithT(t), queue})
	})
}

// next returns the next request, its priority, and how long it took to arrive.
func (q *workQueue) next() (key types.NamespacedName, priority int, waited time.Duration) {
	start := time.Now()
	request, priority, _ := q.GetWithPriority()
	return request.NamespacedName, priority, time.Since(start)
}

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
	enqueue(q, key, PriorityNormal)
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

func TestEnqueueAtOnce(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		enqueue(q, emails, PriorityGrowth)

		key, priority, waited := q.next()
		q.Expect(key).To(Equal(emails))
		q.Expect(priority).To(Equal(PriorityGrowth))
		q.Expect(waited).To(BeZero())
	})
}

// An event replaces a pending resync.
func TestEnqueueBeforeTheResync(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		enqueue(q, emails, PriorityNormal)
		q.next()
		q.succeed(emails, 30*time.Second)
		time.Sleep(5 * time.Second)

		enqueue(q, emails, PriorityGrowth)

		_, priority, waited := q.next()
		q.Expect(priority).To(Equal(PriorityGrowth))
		q.Expect(waited).To(BeZero())
		q.succeed(emails, 30*time.Second)
		_, priority, waited = q.next()
		q.Expect(priority).To(Equal(PriorityResync), "the next resync has the priority of a resync")
		q.Expect(waited).To(Equal(30*time.Second), "the previous resync was replaced")
	})
}

func TestEnqueueDuringBackoff(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		retry := retry.APIServer.After(5)
		time.Sleep(retry / 4)

		for range 100 {
			enqueue(q, emails, PriorityGrowth)
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
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 5)
		q.next()

		enqueue(q, emails, PriorityGrowth)
		q.fail(emails)

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(retry.APIServer.After(5)), "the delay of the previous retry")
	})
}

// An event during a successful retry waits neither for the backoff nor for the resync.
func TestEnqueueDuringASuccessfulRetry(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 10)
		q.next()

		enqueue(q, emails, PriorityGrowth)
		enqueue(q, emails, PriorityNormal)
		q.succeed(emails, 30*time.Second)

		_, priority, waited := q.next()
		q.Expect(priority).To(Equal(PriorityGrowth))
		q.Expect(waited).To(BeZero())
		q.succeed(emails, 30*time.Second)
		enqueue(q, emails, PriorityGrowth)
		_, _, waited = q.next()
		q.Expect(waited).To(BeZero(), "the backoff was reset")
	})
}

// The retry does the work of the events that came before it. When it succeeds, nothing is left to do.
func TestEnqueueBeforeASuccessfulRetry(t *testing.T) {
	t.Parallel()
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.failTimes(emails, 10)
		enqueue(q, emails, PriorityGrowth)
		q.next()
		q.succeed(emails, 30*time.Second)

		_, _, waited := q.next()
		q.Expect(waited).To(Equal(30 * time.Second))
	})
}

func TestWakesDeliver(t *testing.T) {
	t.Parallel()
	for cause, want := range map[coalesce.Cause]int{
		coalesce.Growth: PriorityGrowth, coalesce.Confirmed: PriorityNormal, coalesce.Shrink: PriorityResync,
	} {
		t.Run(cause.String(), func(t *testing.T) {
			t.Parallel()
			withQueue(t, func(ctx context.Context, q *workQueue) {
				wakes := make(Wakes, 1)
				wakes.Deliver(ctx, coalesce.Wake{ID: coalesce.ID(emails), Cause: cause})

				wakeHandler().Generic(ctx, <-wakes, q)

				key, priority, _ := q.next()
				q.Expect(key).To(Equal(emails))
				q.Expect(priority).To(Equal(want))
			})
		})
	}
}

// The controller receives no wake-ups before it has started and after it has stopped.
func TestWakesDeliverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		delivered := make(chan struct{})
		go func() {
			make(Wakes).Deliver(ctx, coalesce.Wake{ID: coalesce.ID(emails)})
			close(delivered)
		}()
		synctest.Wait()
		select {
		case <-delivered:
			t.Error("no wake-up was received")
		default:
		}

		cancel()
		<-delivered
	})
}
