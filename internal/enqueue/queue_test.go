// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"miracle.dev/scaledjob-operator/internal/retry"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func named(namespace string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
}

// The earliest deadline goes first, and of two deadlines of the same ScaledJob the earlier one counts.
func TestEarliestDeadlineGoesFirst(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.add(named("mail", 0), PriorityResync)
		q.add(named("mail", 1), PriorityNormal)
		q.add(named("mail", 2), PriorityGrowth)
		q.add(named("mail", 3), PriorityResync)
		q.add(named("mail", 3), PriorityGrowth)
		q.add(named("mail", 2), PriorityResync)
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, requestOf(named("mail", 4)))
		time.Sleep(normalPatience + time.Millisecond)
		q.add(named("mail", 5), PriorityGrowth)

		for _, want := range []int{2, 3, 1, 5, 0, 4} {
			key, _, _ := q.next()
			q.Expect(key).To(Equal(named("mail", want)))
		}
	})
}

func TestDeadlines(t *testing.T) {
	const now = time.Hour
	type row struct {
		class int
		delay time.Duration
		want  time.Duration // from now
	}
	bubble.Each(t, map[string]row{
		"growth":         {PriorityGrowth, 0, 0},
		"later growth":   {PriorityGrowth, time.Minute, time.Minute},
		"normal":         {PriorityNormal, 0, normalPatience},
		"resync":         {PriorityResync, 20 * time.Second, 20*time.Second + resyncPatience},
		"seldom resync":  {PriorityResync, time.Hour, time.Hour + time.Hour/2},
		"of the library": {handler.LowPriority, 0, resyncPatience},
	}, func(_ *testing.T, g Gomega, c row) {
		g.Expect(deadline(c.class, c.delay, now)).To(Equal(PriorityResync - 1 - int((now + c.want).Milliseconds())))
	})
}

// After a panic, controller-runtime adds the request with the priority that the queue has handed out. The ScaledJob
// must not go before others each time.
func TestRetryAfterAPanicHasItsOwnDeadline(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.add(emails, PriorityGrowth)
		request, priority, _ := q.GetWithPriority()
		time.Sleep(time.Minute)
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: &priority}, request)
		q.Done(request)
		_, patience, waited := q.next()
		q.Expect(waited).To(Equal(retry.APIServer.First))
		q.Expect(patience).To(Equal(normalPatience))
	})
}

// Whatever adds a request, it has a deadline.
func TestEveryRequestHasADeadline(t *testing.T) {
	withQueue(t, func(_ context.Context, q *workQueue) {
		q.Add(requestOf(named("a", 0)))
		q.AddAfter(requestOf(named("a", 1)), time.Second)
		q.AddRateLimited(requestOf(named("a", 2)))
		for range 3 {
			_, patience, _ := q.next()
			q.Expect(patience).To(Equal(normalPatience))
		}
	})
}

// growing and others are the ScaledJobs of the following tests.
const growing, others = 50, 20

// serve requests all of them, and serves requests for a time, 10 ms each. It requests the growing ScaledJobs again at
// once. It returns when each of the others was served first.
func serve(queue priorityqueue.PriorityQueue[reconcile.Request], duration time.Duration) map[string]time.Duration {
	for i := range growing {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(PriorityGrowth)}, requestOf(named("growing", i)))
	}
	for i := range others {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(PriorityNormal)}, requestOf(named("others", i)))
	}
	served, start := map[string]time.Duration{}, time.Now()
	for time.Since(start) < duration {
		request, _, _ := queue.GetWithPriority()
		time.Sleep(10 * time.Millisecond)
		queue.Forget(request)
		if request.Namespace == "growing" {
			queue.AddWithOpts(priorityqueue.AddOpts{After: time.Millisecond, Priority: new(PriorityGrowth)}, request)
		} else if _, again := served[request.Name]; !again {
			served[request.Name] = time.Since(start)
		}
		queue.Done(request)
	}
	return served
}

// Queues that grow all the time hold up no other request for long.
func TestRequestThatWaitsLongGoesFirst(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		queue := newQueue(1, func(string, int) {})
		defer queue.ShutDown()
		served := serve(queue, 5*time.Second)
		g.Expect(served).To(HaveLen(others))
		for name, after := range served {
			g.Expect(after).To(BeNumerically("~", normalPatience, time.Second), name)
		}
	})
}

// The negative control: a queue that always serves the highest class first serves growth only.
func TestUsualQueueServesGrowthOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		queue := priorityqueue.New[reconcile.Request]("")
		defer queue.ShutDown()
		NewWithT(t).Expect(serve(queue, 5*time.Second)).To(BeEmpty())
	})
}

// workers are the workers of a controller, whose reconciles end when the test says so.
type workers struct {
	*workQueue

	mu      sync.Mutex
	running map[string][]running
	parked  map[string]int
	served  map[reconcile.Request]int
}

type running struct {
	request reconcile.Request
	end     chan struct{}
}

// withWorkers runs a test with so many workers.
func withWorkers(t *testing.T, count int, test func(w *workers)) {
	t.Helper()
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		w := &workers{running: map[string][]running{}, parked: map[string]int{}, served: map[reconcile.Request]int{}}
		w.workQueue = &workQueue{g, newQueue(count, func(namespace string, requests int) { w.parked[namespace] = requests })}
		for range count {
			go w.work()
		}
		defer func() {
			w.ShutDown()
			for namespace := range w.running {
				for w.count(namespace) > 0 {
					w.end(namespace)
				}
			}
		}()
		test(w)
	})
}

func (w *workers) work() {
	for {
		request, _, shutdown := w.GetWithPriority()
		if shutdown {
			return
		}
		now := running{request, make(chan struct{})}
		w.mu.Lock()
		w.running[request.Namespace] = append(w.running[request.Namespace], now)
		w.served[request]++
		w.mu.Unlock()
		<-now.end
		w.Forget(request)
		w.Done(request)
	}
}

// wants adds requests for ScaledJobs of a namespace, 1 ms apart, and lets the workers take what they may.
func (w *workers) wants(namespace string, from, to, class int) {
	for i := from; i < to; i++ {
		w.add(named(namespace, i), class)
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// end ends the reconcile of a namespace that has run for longest, and returns it.
func (w *workers) end(namespace string) reconcile.Request {
	w.mu.Lock()
	first := w.running[namespace][0]
	w.running[namespace] = w.running[namespace][1:]
	w.mu.Unlock()
	close(first.end)
	synctest.Wait()
	return first.request
}

func (w *workers) count(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running[namespace])
}

// last returns the ScaledJob of a namespace whose reconcile began last.
func (w *workers) last(namespace string) types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[namespace][len(w.running[namespace])-1].request.NamespacedName
}

// The more namespaces share the workers, the less each of them gets; the last ones get one each.
func TestSharesOfNamespaces(t *testing.T) {
	withWorkers(t, 32, func(w *workers) {
		for i, want := range []int{16, 8, 4, 1, 1, 1, 1, 0} {
			namespace := fmt.Sprint("namespace-", i)
			w.wants(namespace, 0, 40, PriorityGrowth)
			w.Expect(w.count(namespace)).To(Equal(want), namespace)
		}
		w.Expect(w.parked["namespace-0"]).To(Equal(24))
	})
}

// A worker that is free goes to the earliest deadline of those that may have it.
func TestParkedRequestsAreServedByDeadline(t *testing.T) {
	withWorkers(t, 32, func(w *workers) {
		w.wants("noisy", 0, 16, PriorityGrowth)
		w.wants("noisy", 20, 30, PriorityResync)
		w.wants("noisy", 40, 43, PriorityNormal)
		w.wants("noisy", 25, 26, PriorityGrowth)
		w.Expect(w.parked["noisy"]).To(Equal(13))
		for _, next := range []int{25, 40, 41, 42, 20, 21} {
			w.end("noisy")
			w.Expect(w.last("noisy")).To(Equal(named("noisy", next)))
			w.Expect(w.count("noisy")).To(Equal(16))
		}
		w.wants("calm", 0, 1, PriorityResync)
		w.Expect(w.count("calm")).To(Equal(1), "nobody waits for another namespace")
	})
}

// Of the namespaces that may have it, the one whose request has the earliest deadline gets the worker.
func TestTheMostUrgentNamespaceIsServedFirst(t *testing.T) {
	withWorkers(t, 32, func(w *workers) {
		w.wants("first", 0, 16, PriorityGrowth)
		w.wants("second", 0, 8, PriorityGrowth)
		w.wants("third", 0, 4, PriorityGrowth)
		w.wants("resyncs", 0, 2, PriorityResync)
		w.wants("grows", 0, 2, PriorityGrowth)
		w.Expect(w.parked).To(And(HaveKeyWithValue("resyncs", 1), HaveKeyWithValue("grows", 1)))
		for range 3 {
			w.end("first")
		}
		w.Expect(w.parked).To(And(HaveKeyWithValue("resyncs", 1), HaveKeyWithValue("grows", 0)))
	})
}

// Whatever is requested and ends, no namespace has more than its share, no worker is idle while somebody may have it,
// and each request is served after it was added.
func TestNoRequestIsLostOrServedTwiceAtATime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			withWorkers(t, 8, func(w *workers) {
				due := map[types.NamespacedName]int{} // How often each was served when it was last added.
				for range 400 {
					key := named(fmt.Sprint(random.IntN(4)), random.IntN(12))
					if random.IntN(3) > 0 {
						due[key] = w.served[requestOf(key)]
						w.add(key, []int{PriorityGrowth, PriorityNormal, PriorityResync}[random.IntN(3)])
						synctest.Wait()
					} else if w.count(key.Namespace) > 0 {
						w.end(key.Namespace)
					}
					w.expectFair()
				}
				for busy := true; busy; {
					busy = false
					for i := range 4 {
						if namespace := fmt.Sprint(i); w.count(namespace) > 0 {
							w.end(namespace)
							busy = true
						}
					}
				}
				for key, before := range due {
					w.Expect(w.served[requestOf(key)]).To(BeNumerically(">", before), key.String())
				}
				w.Expect(w.Len()).To(BeZero())
				w.Expect(w.parked).To(HaveEach(0))
			})
		})
	}
}

// expectFair expects that the workers are shared as they should be.
func (w *workers) expectFair() {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := 8
	for _, all := range w.running {
		free -= len(all)
		seen := map[reconcile.Request]bool{}
		for _, each := range all {
			w.Expect(seen[each.request]).To(BeFalse(), "%s has two workers", each.request)
			seen[each.request] = true
		}
	}
	for namespace, waiting := range w.parked {
		if has := len(w.running[namespace]); waiting > 0 {
			w.Expect(has > 0 && (has >= free || free <= 1)).To(BeTrue(),
				"%d requests of %s wait, %d run and %d workers are free", waiting, namespace, has, free)
		}
	}
}

func TestQueueConcurrently(t *testing.T) {
	t.Parallel()
	const keys, adds = 50, 2000
	queue := newQueue(4, func(string, int) {})
	var served, lastAdd [2 * keys]atomic.Int64
	var clock atomic.Int64
	index := func(key types.NamespacedName) int {
		var at int
		_, _ = fmt.Sscan(key.Name, &at)
		if key.Namespace == "b" {
			at += keys
		}
		return at
	}
	var working, adding sync.WaitGroup
	for range 4 {
		working.Go(func() {
			for {
				request, _, shutdown := queue.GetWithPriority()
				if shutdown {
					return
				}
				served[index(request.NamespacedName)].Store(clock.Add(1))
				queue.Forget(request)
				queue.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, Priority: new(PriorityResync)}, request)
				queue.Done(request)
			}
		})
	}
	for _, namespace := range []string{"a", "b"} {
		adding.Go(func() {
			for i := range adds {
				key := named(namespace, i%keys)
				lastAdd[index(key)].Store(clock.Add(1))
				enqueue(queue, key, new(PriorityGrowth), 0)
			}
		})
	}
	adding.Wait()
	NewWithT(t).Eventually(func() bool {
		for i := range served {
			if served[i].Load() < lastAdd[i].Load() {
				return false
			}
		}
		return true
	}).WithTimeout(time.Minute).Should(BeTrue(), "each request is served after it was added")
	queue.ShutDown()
	working.Wait()
}
