// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/redisconn"
	"miracle.dev/scaledjob-operator/test/redistest"
)

// timeout is how long a test waits for something that has to happen.
const timeout = 30 * time.Second

// observer is a watcher of an emulated server, and what it delivered.
type observer struct {
	*keyspace.Watcher[string]
	Gomega
	t        *testing.T
	server   *redistest.Emulated
	endpoint redisconn.Endpoint
	pool     *redisconn.Pool

	mu    sync.Mutex
	wakes map[keyspace.Wake[string]]int
	// depths are of the key "queue", as last read for each id.
	depths map[string]int64
}

func newObserver(t *testing.T, options redistest.EmulatedOptions) *observer {
	t.Helper()
	server := redistest.NewEmulated(t, options)
	pool := redisconn.NewPool(logr.Discard())
	o := &observer{
		Gomega: NewWithT(t), t: t, server: server, endpoint: redisconn.Endpoint{Address: server.Addr()},
		pool: pool, wakes: map[keyspace.Wake[string]]int{}, depths: map[string]int64{},
	}
	o.Watcher = keyspace.New(keyspace.Options[string]{Pool: pool, Deliver: o.deliver, Log: logr.Discard()})
	return o
}

// start runs the watcher until the test ends, or until what it returns is called.
func (o *observer) start() (stop func()) {
	ctx, cancel := context.WithCancel(o.t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Expect(o.pool.Start(ctx)).To(Succeed()) })
	running.Go(func() { o.Expect(o.Start(ctx)).To(Succeed()) })
	stop = func() {
		cancel()
		running.Wait()
	}
	o.t.Cleanup(stop)
	return stop
}

// deliver reads once, as a reconciler would.
func (o *observer) deliver(ctx context.Context, w keyspace.Wake[string]) {
	depth, err := o.server.Client().LLen(ctx, "queue").Result()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wakes[w]++
	if err == nil {
		o.depths[w.ID] = depth
	}
}

// woken returns how often id was woken by a cause.
func (o *observer) woken(id string, cause keyspace.Cause) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wakes[keyspace.Wake[string]{ID: id, Cause: cause}]
}

// depth returns what was read at the last wake of id.
func (o *observer) depth(id string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.depths[id]
}

func (o *observer) eventuallyWoken(id string, cause keyspace.Cause) {
	o.t.Helper()
	o.Eventually(o.woken).WithArguments(id, cause).
		WithTimeout(timeout).WithPolling(time.Millisecond).ShouldNot(BeZero(), id)
}

func (o *observer) push(key string) {
	o.t.Helper()
	o.Expect(o.server.Client().LPush(o.t.Context(), key, "message").Err()).To(Succeed())
}

// eventuallySubscribed waits until the watcher is subscribed to these keys, and no others.
func (o *observer) eventuallySubscribed(keys ...string) {
	o.t.Helper()
	channels := make([]string, 0, len(keys))
	for _, key := range keys {
		channels = append(channels, "__keyspace@0__:"+key)
	}
	o.Eventually(func() ([]string, error) {
		return o.server.Client().PubSubChannels(o.t.Context(), "*").Result()
	}).WithTimeout(timeout).WithPolling(time.Millisecond).Should(ConsistOf(channels))
}

func TestTheLifeOfAWatcher(t *testing.T) {
	t.Parallel()
	o := newObserver(t, redistest.EmulatedOptions{})
	o.Ensure("early", o.endpoint, "queue")
	o.Ensure("forgotten", o.endpoint, "other")
	o.Forget("forgotten")
	stop := o.start()
	o.eventuallyWoken("early", keyspace.Confirmed)
	o.Ensure("late", o.endpoint, "queue")
	o.eventuallyWoken("late", keyspace.Confirmed)
	o.eventuallySubscribed("queue")

	o.push("queue")
	o.eventuallyWoken("early", keyspace.Growth)
	o.eventuallyWoken("late", keyspace.Growth)

	stop()
	o.eventuallySubscribed()
	o.Ensure("too late", o.endpoint, "queue")
	o.Forget("late")
	o.push("queue")
	o.Expect(o.woken("early", keyspace.Growth)).To(Equal(1))
	o.Expect(o.woken("too late", keyspace.Confirmed)).To(BeZero())
	o.Expect(o.woken("forgotten", keyspace.Confirmed)).To(BeZero())
}

func TestOnePushWakesAllWhoWatchTheQueue(t *testing.T) {
	t.Parallel()
	o := newObserver(t, redistest.EmulatedOptions{})
	o.start()
	const many = 200
	for i := range many {
		o.Ensure(fmt.Sprint(i), o.endpoint, "queue")
	}
	for i := range many {
		o.eventuallyWoken(fmt.Sprint(i), keyspace.Confirmed)
	}
	o.push("queue")
	for i := range many {
		o.eventuallyWoken(fmt.Sprint(i), keyspace.Growth)
		o.Expect(o.depth(fmt.Sprint(i))).To(BeEquivalentTo(1))
	}
	// A second wake would come before that of one who asks now.
	o.Ensure("last", o.endpoint, "queue")
	o.eventuallyWoken("last", keyspace.Confirmed)
	for i := range many {
		o.Expect(o.woken(fmt.Sprint(i), keyspace.Growth)).To(Equal(1))
	}
}

func TestOneConnectionHoweverMuchIsWatched(t *testing.T) {
	t.Parallel()
	o := newObserver(t, redistest.EmulatedOptions{})
	o.start()
	o.Ensure("first", o.endpoint, "queue")
	o.eventuallyWoken("first", keyspace.Confirmed)
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 100 {
				id := fmt.Sprintf("%d-%d", worker, i)
				o.Ensure(id, o.endpoint, "queue", "own-"+id, fmt.Sprintf("shared-%d", i))
				if i%3 == 0 {
					o.Forget(id)
				}
			}
		})
	}
	workers.Wait()
	for worker := range 4 {
		for i := range 100 {
			if i%3 != 0 {
				o.eventuallyWoken(fmt.Sprintf("%d-%d", worker, i), keyspace.Confirmed)
			}
		}
	}
	o.push("own-3-98")
	o.eventuallyWoken("3-98", keyspace.Growth)
	o.Expect(o.server.Subscribers()).To(Equal(1))
}

func TestForgetEndsWhatNobodyElseWatches(t *testing.T) {
	t.Parallel()
	o := newObserver(t, redistest.EmulatedOptions{})
	o.start()
	o.Ensure("a", o.endpoint, "only-a", "both")
	o.Ensure("b", o.endpoint, "both", "only-b")
	o.eventuallySubscribed("only-a", "both", "only-b")

	o.Forget("a")
	o.eventuallySubscribed("both", "only-b")
	o.push("only-a")
	o.push("both")
	o.eventuallyWoken("b", keyspace.Growth)
	o.Expect(o.woken("a", keyspace.Growth)).To(BeZero())

	o.Forget("b")
	o.eventuallySubscribed()
	o.Ensure("b", o.endpoint, "both")
	o.eventuallySubscribed("both")
}

// What is pushed before the watcher is back has no event for it, and is found nevertheless.
func TestRestartsOfTheServerLoseNoPush(t *testing.T) {
	t.Parallel()
	o := newObserver(t, redistest.EmulatedOptions{})
	o.start()
	o.Ensure("id", o.endpoint, "queue")
	o.eventuallyWoken("id", keyspace.Confirmed)
	for round := 1; round <= 3; round++ {
		confirmed := o.woken("id", keyspace.Confirmed)
		o.Expect(o.server.Kill()).To(Succeed())
		o.Expect(o.server.Restart(t.Context())).To(Succeed())
		for range round {
			o.push("queue")
		}
		o.Eventually(o.depth).WithArguments("id").
			WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeEquivalentTo(round))
		o.Eventually(o.woken).WithArguments("id", keyspace.Confirmed).
			WithTimeout(timeout).WithPolling(time.Millisecond).Should(BeNumerically(">", confirmed))
	}
}

func TestAServiceThatForbidsConfig(t *testing.T) {
	t.Parallel()
	o := newObserver(t, redistest.EmulatedOptions{ForbidConfig: true})
	o.start()
	o.Ensure("id", o.endpoint, "queue")
	reason := func() proof.Reason { return o.State("id").Reason }
	o.Eventually(reason).WithTimeout(timeout).WithPolling(time.Millisecond).Should(Equal(proof.ReasonUnverified))
	o.push("queue")
	o.Eventually(reason).WithTimeout(timeout).WithPolling(time.Millisecond).Should(Equal(proof.ReasonSubscribed))
}
