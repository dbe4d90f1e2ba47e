// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// startQueue returns the work queue of a controller with deadlines, and its source of wake-ups. It ends with the test.
func startQueue(t *testing.T, deadlines *Deadlines) requestQueue {
	t.Helper()
	queue, wakes := deadlines.NewQueue("test", RateLimiter()), make(Wakes)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { deadlines.Promote(ctx, wakes) })
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case woken := <-wakes:
				enqueue(queue, woken.Object.key, woken.Object.priority)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		queue.ShutDown()
	})
	return queue
}

// serve serves requests for a time, 10 ms each, and requests all growing ScaledJobs again at once. It returns when each
// of the others was served first.
func serve(queue requestQueue, duration time.Duration) map[string]time.Duration {
	began, served := time.Now(), map[string]time.Duration{}
	for time.Since(began) < duration {
		request, _, _ := queue.(priorityqueue.PriorityQueue[reconcile.Request]).GetWithPriority()
		time.Sleep(10 * time.Millisecond)
		if _, before := served[request.Name]; !before {
			served[request.Name] = time.Since(began)
		}
		queue.Done(request)
		if request.Namespace == "growing" {
			enqueue(queue, request.NamespacedName, PriorityGrowth)
		}
	}
	return served
}

func TestRequestThatWaitsLongGoesFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		add  func(queue requestQueue)
		wait time.Duration
	}{
		"an edit": {func(queue requestQueue) { enqueue(queue, emails, PriorityNormal) }, longestWait},
		"what has no priority": {
			func(queue requestQueue) { queue.Add(reconcile.Request{NamespacedName: emails}) }, longestWait,
		},
		"a status that is delayed": {func(queue requestQueue) { addAfter(queue, emails, time.Second) }, time.Second + longestWait},
		"a retry": {func(queue requestQueue) {
			queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
				priorityqueue.AddOpts{RateLimited: true}, reconcile.Request{NamespacedName: emails})
		}, longestWait},
		"a resync": {func(queue requestQueue) { addAfter(queue, emails, 30*time.Second) }, 45 * time.Second},
		"an edit before a resync": {func(queue requestQueue) {
			addAfter(queue, emails, 30*time.Second)
			enqueue(queue, emails, PriorityNormal)
		}, longestWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var deadlines Deadlines
				queue := startQueue(t, &deadlines)
				for i := range 10 {
					enqueue(queue, types.NamespacedName{Namespace: "growing", Name: fmt.Sprint(i)}, PriorityGrowth)
				}
				c.add(queue)
				served := serve(queue, c.wait+2*time.Second)
				g.Expect(served).To(HaveKeyWithValue(emails.Name, And(
					BeNumerically(">=", c.wait), BeNumerically("<=", c.wait+overdueInterval+50*time.Millisecond))))
				g.Expect(deadlines.by).NotTo(HaveKey(emails))
			})
		})
	}
}

// Without deadlines, the growth of others holds up everything else.
func TestUsualQueueServesGrowthOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := priorityqueue.New[reconcile.Request]("test")
		defer queue.ShutDown()
		for i := range 10 {
			enqueue(queue, types.NamespacedName{Namespace: "growing", Name: fmt.Sprint(i)}, PriorityGrowth)
		}
		enqueue(queue, emails, PriorityNormal)
		NewWithT(t).Expect(serve(queue, 10*time.Second)).NotTo(HaveKey(emails.Name))
	})
}

// addAfter adds a request as the controller does after a reconcile.
func addAfter(queue requestQueue, key types.NamespacedName, delay time.Duration) {
	queue.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
		priorityqueue.AddOpts{After: delay, Priority: new(PriorityResync)}, reconcile.Request{NamespacedName: key})
}

func TestNamespacesTakeTurnsIfManyRequestsAreOverdue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var deadlines Deadlines
	now := time.Now()
	g.Expect(deadlines.overdue(now)).To(BeEmpty())
	var crowd []types.NamespacedName
	for i := range 3 {
		crowd = append(crowd, types.NamespacedName{Namespace: "crowd", Name: fmt.Sprint(i)})
		deadlines.expect(crowd[i], time.Duration(i)*time.Minute)
	}
	deadlines.expect(emails, time.Hour)
	g.Expect(deadlines.overdue(now)).To(BeEmpty())
	later := now.Add(2 * time.Hour)
	g.Expect(deadlines.overdue(later)).To(Equal([]types.NamespacedName{crowd[0], emails, crowd[1], crowd[2]}))
	deadlines.served(emails)
	g.Expect(deadlines.overdue(later)).To(Equal(crowd))
}

func TestDeadlinesConcurrently(t *testing.T) {
	t.Parallel()
	var deadlines Deadlines
	var passes sync.WaitGroup
	for i := range 8 {
		key := types.NamespacedName{Namespace: "mail", Name: fmt.Sprint("emails-", i)}
		passes.Go(func() {
			for range 100 {
				deadlines.expect(key, 0)
				deadlines.overdue(time.Now())
				deadlines.served(key)
			}
		})
	}
	passes.Wait()
	NewWithT(t).Expect(deadlines.by).To(BeEmpty())
}
