// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestAPushWakes(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr())
	h.verified("emails", "other")

	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	elements := make([]any, 1000)
	for i := range elements {
		elements[i] = i
	}
	must(t, server.Client().LPush(t.Context(), "emails", elements...))
	h.eventually("emails", 1001)
	h.Expect(h.count("emails", coalesce.Growth)).To(BeNumerically("<=", 2), "there were two events")
	h.Expect(h.count("other", coalesce.Growth)).To(BeZero())
}

func TestClassesAreThoseOfTheKeysThatAreWatchedNow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pool := connection.NewPool(connection.Options{})
	w := New(Options{Pool: pool, Directory: topology.New(pool, logr.Discard()), Deliver: func(coalesce.Wake) { /* nobody reads */ }, Recorder: newRecorded(), Log: logr.Discard()})
	endpoint := auth.Endpoint{Address: "127.0.0.1:1"}
	expect := func(classes ...verify.Class) {
		t.Helper()
		g.Expect(w.nodes[database{serverOf(endpoint), 0}].Classes()).To(ConsistOf(classes))
	}
	w.Ensure(named("a"), endpoint, AnySource, list("first"), list("second"), Key{Name: "third", Class: verify.ClassStream})
	expect(verify.ClassList, verify.ClassStream)
	w.Ensure(named("b"), endpoint, AnySource, list("first"))
	w.Forget(named("a"))
	expect(verify.ClassList)
	w.Ensure(named("b"), endpoint, AnySource, Key{Name: "first", Class: verify.ClassHash}, Key{Name: "second", Class: verify.ClassSet})
	expect(verify.ClassHash, verify.ClassSet)
	w.Ensure(named("b"), endpoint, AnySource, Key{Name: "second", Class: verify.ClassSet})
	expect(verify.ClassSet)
}

func TestEnsureMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	first, second := redistest.New(t, redistest.Options{}), redistest.New(t, redistest.Options{})
	h := newHarness(t, first.Addr())
	h.ensure("emails")
	h.moveTo(second)
	h.Ensure("emails", h.endpoint, list("emails"))
	h.eventuallyWoken("emails", coalesce.Confirmed, 2)
	do(t, second, "lpush", "emails", 1)
	h.eventually("emails", 1)
	h.Eventually(subscriptions).WithArguments(t, first).WithTimeout(timeout).Should(BeEmpty())
}

// A wake that is lost when the connection breaks shows only in the last depth, because the wakes for the interruption
// would hide it. So these are switched off.
func TestNoWakeIsLostWhenSubscribersAreKilled(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr(), waking(coalesce.Growth, coalesce.Confirmed))
	h.ensure("emails")
	for round := range 5 {
		for range 200 {
			do(t, server, "lpush", "emails", 1)
		}
		do(t, server, "client", "kill", "type", "pubsub")
		do(t, server, "lpush", "emails", 1)
		h.eventually("emails", int64(round+1)*201)
	}
}

// The push comes in the same transaction as the end of the subscription, so nobody is notified of it.
func TestAWakeIsLostIfConfirmationsDoNotWake(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "-client|tracking")
	h := newHarness(t, server.Addr(), waking(coalesce.Growth))
	keys := []string{channelPrefix + "emails", channelPrefix + "last"}
	h.Ensure("emails", h.endpoint, list("emails"))
	h.Ensure("last", h.endpoint, list("last"))
	h.Eventually(subscriptions).WithArguments(t, server).WithTimeout(timeout).Should(ConsistOf(keys))
	_, err := server.Client().TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.ClientKillByFilter(t.Context(), "type", "pubsub")
		pipe.LPush(t.Context(), "emails", 1)
		return nil
	})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(subscriptions).WithArguments(t, server).WithTimeout(timeout).Should(ConsistOf(keys))
	do(t, server, "lpush", "last", 1)
	h.eventually("last", 1) // Events and wakes arrive in order.
	h.Expect(h.depth("emails")).To(BeZero())
}

// waking makes a watcher wake only for these causes.
func waking(causes ...coalesce.Cause) func(*harness) {
	return func(w *harness) {
		w.wake = func(id ID, cause coalesce.Cause) {
			if slices.Contains(causes, cause) {
				w.throttle.Request(id, cause)
			}
		}
	}
}

func TestAForbiddenChannelHarmsNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	keys := []string{"forbidden"}
	for i := range 500 {
		keys = append(keys, fmt.Sprintf("allowed-%d", i))
	}
	do(t, server, "acl", "setuser", "default", "resetchannels", "&"+channelPrefix+"allowed-*", "-client|tracking")
	h := newHarness(t, server.Addr(), func(w *harness) { w.options.Timing.ForbiddenRetry = 100 * time.Millisecond })
	h.Ensure("forbidden", h.endpoint, list("forbidden"))
	h.ensure(keys[1:]...)
	h.Expect(h.count("forbidden", coalesce.Confirmed)).To(BeZero())
	do(t, server, "lpush", "allowed-7", 1)
	h.eventually("allowed-7", 1)

	// Granting a permission does not close connections: the session retries by itself.
	do(t, server, "acl", "setuser", "default", "allchannels")
	h.eventuallyWoken("forbidden", coalesce.Confirmed, 1)
	do(t, server, "lpush", "forbidden", 1)
	h.eventually("forbidden", 1)
	h.continues()
}

func TestARevokedChannelIsTriedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr(), func(w *harness) { w.options.Timing.ForbiddenRetry = 100 * time.Millisecond })
	h.ensure("emails", "other")
	do(t, server, "acl", "setuser", "default", "resetchannels", "&"+channelPrefix+"other")
	h.eventuallyWoken("other", coalesce.Confirmed, 2)
	do(t, server, "lpush", "emails", 1)
	do(t, server, "acl", "setuser", "default", "allchannels")
	h.eventually("emails", 1)
}

func TestOddKeys(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr())
	keys := []string{
		"", " ", "a b", "a\r\nb", "\x00", "a\x00b", "*", "a*", "?", "[a]", "\\", "{a}b", "日本", "\xff\xfe", ":", "__keyspace@0__:x",
		strings.Repeat("k", 1024),
	}
	h.ensure(keys...)
	for _, key := range keys {
		do(t, server, "rpush", key, 1)
		h.eventually(key, 1)
	}
}

func TestForgedMessages(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr())
	h.ensure("emails")
	forged := []string{"", "lset", "\x00", strings.Repeat("x", 15<<10), "subscribe", "-ERR"}
	for _, payload := range forged {
		do(t, server, "publish", channelPrefix+"emails", payload)
		do(t, server, "publish", channelPrefix+"unknown", payload)
	}
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	h.Eventually(h.recorded.received.Load).WithTimeout(timeout).Should(BeEquivalentTo(len(forged)+1), "each was received")
	h.continues()

	// A message that exceeds the limits ends the session, and the next session makes up for it.
	for i, payload := range []string{strings.Repeat("x", 17<<10), strings.Repeat("x", 2<<20)} {
		h.Eventually(h.recorded.subscribed.Load).WithTimeout(timeout).Should(BeTrue())
		do(t, server, "publish", channelPrefix+"emails", payload)
		h.Eventually(h.recorded.ended.Load).WithTimeout(timeout).Should(BeEquivalentTo(i + 1))
	}
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 2)
}

func TestTenThousandChannelsOnOneConnection(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr())
	many := 10_000
	if testing.Short() {
		many = 1_000 // There are still several commands.
	}
	for i := range many {
		key := fmt.Sprintf("queue-%d", i)
		h.Ensure(key, h.endpoint, list(key))
	}
	confirmed := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.seen)
	}
	h.Eventually(confirmed).WithTimeout(timeout).Should(Equal(many))
	clients, err := server.Client().ClientList(t.Context()).Result()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(strings.Count(clients, " sub=") - strings.Count(clients, " sub=0 ")).To(Equal(1))
	h.Expect(clients).To(ContainSubstring(fmt.Sprintf(" sub=%d ", many)))

	do(t, server, "lpush", "queue-999", 1)
	h.eventually("queue-999", 1)
	for i := range many {
		h.Forget(fmt.Sprintf("queue-%d", i))
	}
	h.Eventually(subscriptions).WithArguments(t, server).WithTimeout(timeout).Should(BeEmpty())
}

// The session survives the pause. A read during the pause fails, and no event repeats it.
func TestAServerThatAnswersAgainWakes(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr())
	h.verified("emails")
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	h.Expect(server.Pause()).To(Succeed())
	h.Eventually(func() error {
		_, err := h.read(t.Context(), h.endpoint, "emails")
		return err
	}).WithTimeout(timeout).Should(HaveOccurred())
	before := h.count("emails", coalesce.Changed)
	h.Expect(server.Resume()).To(Succeed())
	h.eventuallyWoken("emails", coalesce.Changed, before+1)
	h.continues()
}

// present reports whether the channel of a key is subscribed to.
func (h *harness) present(key string) bool {
	h.Watcher.mu.Lock()
	node := h.nodes[database{serverOf(h.endpoint), 0}]
	h.Watcher.mu.Unlock()
	return node.State(key).Subscription.Present
}

// A push at any moment around Ensure is seen: either by the read after the confirmation or by the read after the event.
func TestAPushAroundEnsureIsSeen(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr(), waking(coalesce.Growth, coalesce.Confirmed))
	const parallel = 8
	rounds := 3000
	if testing.Short() {
		rounds = 600 // The moments are random, and each run adds some.
	}
	var workers sync.WaitGroup
	for worker := range parallel {
		workers.Go(func() {
			for round := range rounds / parallel {
				key := fmt.Sprintf("queue-%d-%d", worker, round)
				var pusher sync.WaitGroup
				pusher.Go(func() {
					time.Sleep(rand.N(time.Millisecond))
					do(t, server, "lpush", key, 1)
				})
				time.Sleep(rand.N(time.Millisecond))
				h.Ensure(key, h.endpoint, list(key))
				pusher.Wait()
				h.eventually(key, 1)
				h.Forget(key)
			}
		})
	}
	workers.Wait()
}

// A read before the subscription misses the pushes in between.
func TestAPushIsMissedIfReadBeforeSubscribing(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr(), waking(coalesce.Growth))
	h.readAtWake(t.Context(), coalesce.Wake{ID: named("emails")})
	do(t, server, "lpush", "emails", 1)
	h.Ensure("emails", h.endpoint, list("emails"))
	h.Eventually(subscriptions).WithArguments(t, server).WithTimeout(timeout).Should(ConsistOf(channelPrefix + "emails"))
	h.Consistently(h.depth).WithArguments("emails").Should(BeZero())
}

func TestNothingIsLostBeforeAnyoneTakesWakes(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	release := make(chan struct{})
	h := newHarness(t, server.Addr(), func(w *harness) {
		serve := w.serve
		w.serve = func(ctx context.Context, w coalesce.Wake) {
			serve(ctx, w)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
	})
	keys := []string{"a", "b", "c"}
	for _, key := range keys {
		h.Ensure(key, h.endpoint, list(key))
	}
	for _, key := range keys {
		h.eventuallyJudged(key, verify.ReasonSubscribed)
	}
	const pushes = 1000
	for range pushes {
		for _, key := range keys {
			do(t, server, "lpush", key, 1)
		}
	}
	h.Eventually(h.recorded.received.Load).WithTimeout(timeout).Should(BeEquivalentTo(len(keys) * pushes))
	close(release)
	for _, key := range keys {
		h.eventually(key, pushes)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	wakes := slices.DeleteFunc(h.wakes, func(w coalesce.Wake) bool { return w.Cause == coalesce.Changed }) // The verdict.
	h.Expect(len(wakes)).To(BeNumerically("<=", 3*len(keys)), "wakes merge until they are delivered")
}

func TestTheWatcherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	pool := connection.NewPool(connection.Options{})
	woken := make(chan struct{}, 1)
	w := New(Options{
		Pool: pool, Directory: topology.New(pool, logr.Discard()),
		Deliver: func(coalesce.Wake) {
			select {
			case woken <- struct{}{}:
			default:
			}
		},
		Recorder: newRecorded(), Log: logr.Discard(),
	})
	w.Ensure(named("emails"), auth.Endpoint{Address: server.Addr()}, AnySource, list("emails"))
	w.Ensure(named("nowhere"), auth.Endpoint{Address: "127.0.0.1:1"}, AnySource, list("emails"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- pool.Start(ctx) }()
	go func() { ended <- w.Start(ctx) }()
	g.Eventually(woken).WithTimeout(timeout).Should(Receive())
	g.Consistently(ended).ShouldNot(Receive())
	stop()
	for range 2 {
		g.Eventually(ended).WithTimeout(timeout).Should(Receive(BeNil()))
	}
	g.Expect(w.NeedLeaderElection()).To(BeTrue())
}

// subscriptions returns the channels that have a subscriber.
func subscriptions(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	channels, err := server.Client().PubSubChannels(t.Context(), "*").Result()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return channels
}
