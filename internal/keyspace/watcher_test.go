// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestAPushWakes(t *testing.T) {
	h, server := newServed(t, redistest.Options{})
	h.verified("emails", "other")

	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	elements := make([]any, 1000)
	for i := range elements {
		elements[i] = i
	}
	succeed(t, server.Client().LPush(t.Context(), "emails", elements...))
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
	h.eventuallySubscribed(first)
}

// A wake that is lost when the connection breaks shows only in the last depth, because the wakes for the interruption
// would hide it. So these are switched off.
func TestNoWakeIsLostWhenSubscribersAreKilled(t *testing.T) {
	h, server := newServed(t, redistest.Options{}, waking(coalesce.Growth, coalesce.Confirmed))
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
	h.Ensure("emails", h.endpoint, list("emails"))
	h.Ensure("last", h.endpoint, list("last"))
	h.eventuallySubscribed(server, "emails", "last")
	_, err := server.Client().TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.ClientKillByFilter(t.Context(), "type", "pubsub")
		pipe.LPush(t.Context(), "emails", 1)
		return nil
	})
	h.Expect(err).NotTo(HaveOccurred())
	h.eventuallySubscribed(server, "emails", "last")
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

func TestARevokedChannelIsTriedAgain(t *testing.T) {
	h, server := newServed(t, redistest.Options{}, func(w *harness) { w.options.Timing.ForbiddenRetry = 100 * time.Millisecond })
	h.ensure("emails", "other")
	do(t, server, "acl", "setuser", "default", "resetchannels", "&"+channelPrefix+"other")
	h.eventuallyWoken("other", coalesce.Confirmed, 2)
	do(t, server, "lpush", "emails", 1)
	do(t, server, "acl", "setuser", "default", "allchannels")
	h.eventually("emails", 1)
}

func TestOddKeys(t *testing.T) {
	h, server := newServed(t, redistest.Options{})
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
	h, server := newServed(t, redistest.Options{})
	h.ensure("emails")
	forged := []string{"", "lset", "\x00", strings.Repeat("x", 15<<10), "subscribe", "-ERR"}
	for _, payload := range forged {
		do(t, server, "publish", channelPrefix+"emails", payload)
		do(t, server, "publish", channelPrefix+"unknown", payload)
	}
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	h.Eventually(h.recorded.received.Load).Should(BeEquivalentTo(len(forged)+1), "each was received")
	h.continues()

	// A message that exceeds the limits ends the session, and the next session makes up for it.
	for i, payload := range []string{strings.Repeat("x", 17<<10), strings.Repeat("x", 2<<20)} {
		h.Eventually(h.recorded.subscribed.Load).Should(BeTrue())
		do(t, server, "publish", channelPrefix+"emails", payload)
		h.Eventually(h.recorded.ended.Load).Should(BeEquivalentTo(i + 1))
	}
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 2)
}

func TestTenThousandChannelsOnOneConnection(t *testing.T) {
	h, server := newServed(t, redistest.Options{})
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
	h.Eventually(confirmed).Should(Equal(many))
	clients := must.Get(server.Client().ClientList(t.Context()).Result())(h)
	h.Expect(strings.Count(clients, " sub=") - strings.Count(clients, " sub=0 ")).To(Equal(1))
	h.Expect(clients).To(ContainSubstring(fmt.Sprintf(" sub=%d ", many)))

	do(t, server, "lpush", "queue-999", 1)
	h.eventually("queue-999", 1)
	for i := range many {
		h.Forget(fmt.Sprintf("queue-%d", i))
	}
	h.eventuallySubscribed(server)
}

// The session survives the pause. A read during the pause fails, and no event repeats it.
func TestAServerThatAnswersAgainWakes(t *testing.T) {
	h, server := newServed(t, redistest.Options{})
	h.verified("emails")
	do(t, server, "lpush", "emails", 1)
	h.eventually("emails", 1)
	h.Expect(server.Pause()).To(Succeed())
	h.Eventually(func() error {
		_, err := h.read(t.Context(), h.endpoint, "emails")
		return err
	}).Should(HaveOccurred())
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
	h, server := newServed(t, redistest.Options{}, waking(coalesce.Growth, coalesce.Confirmed))
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
	h, server := newServed(t, redistest.Options{}, waking(coalesce.Growth))
	h.readAtWake(t.Context(), coalesce.Wake{ID: named("emails")})
	do(t, server, "lpush", "emails", 1)
	h.Ensure("emails", h.endpoint, list("emails"))
	h.eventuallySubscribed(server, "emails")
	h.Consistently(h.depth).WithArguments("emails").Should(BeZero())
}

func TestTheLifeOfAWatcher(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	endpoint := auth.Endpoint{Address: server.Addr()}
	var h *harness
	t.Run("from start to end", func(t *testing.T) {
		h = newHarness(t, server.Addr(), func(w *harness) {
			w.Ensure("early", endpoint, list("queue"))
			w.Ensure("forgotten", endpoint, list("other"))
			w.Forget("forgotten")
		})
		h.eventuallyWoken("early", coalesce.Confirmed, 1)
		h.Ensure("late", endpoint, list("queue"))
		h.eventuallyWoken("late", coalesce.Confirmed, 1)
		h.eventuallySubscribed(server, "queue")
		h.eventuallyJudged("early", verify.ReasonSubscribed)
		h.eventuallyJudged("late", verify.ReasonSubscribed)
		succeed(t, server.Client().LPush(t.Context(), "queue", 1))
		h.eventuallyWoken("early", coalesce.Growth, 1)
		h.eventuallyWoken("late", coalesce.Growth, 1)
	})
	h.Ensure("too late", endpoint, list("queue"))
	h.Forget("late")
	succeed(t, server.Client().LPush(t.Context(), "queue", 1))
	g.Expect(h.count("early", coalesce.Growth)).To(Equal(1))
	g.Expect(h.count("too late", coalesce.Confirmed)).To(BeZero())
	g.Expect(h.count("forgotten", coalesce.Confirmed)).To(BeZero())
}

func TestForgetEndsWhatNobodyElseWatches(t *testing.T) {
	h, server := newServed(t, redistest.Options{})
	h.Ensure("a", h.endpoint, list("only-a"), list("both"))
	h.Ensure("b", h.endpoint, list("both"), list("only-b"))
	h.eventuallySubscribed(server, "only-a", "both", "only-b")

	h.Forget("a")
	h.eventuallySubscribed(server, "both", "only-b")
	succeed(t, server.Client().LPush(t.Context(), "only-a", 1))
	succeed(t, server.Client().LPush(t.Context(), "both", 1))
	h.eventuallyWoken("b", coalesce.Growth, 1)
	h.Expect(h.count("a", coalesce.Growth)).To(BeZero())

	h.Forget("b")
	h.eventuallySubscribed(server)
	h.Ensure("b", h.endpoint, list("both"))
	h.eventuallySubscribed(server, "both")
}

// eventuallySubscribed waits until the watcher is subscribed to exactly these keys.
func (h *harness) eventuallySubscribed(server *redistest.Server, keys ...string) {
	h.t.Helper()
	channels := make([]string, 0, len(keys))
	for _, key := range keys {
		channels = append(channels, channelPrefix+key)
	}
	h.Eventually(func() ([]string, error) {
		return server.Client().PubSubChannels(h.t.Context(), "*").Result()
	}).WithPolling(time.Millisecond).Should(ConsistOf(channels))
}

// The server was replaced, and the session moves to the new one before anything is confirmed there. Evidence from the
// old server must not count for the new one.
func TestEvidenceBeginsAnewWithTheFirstConfirmation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var replaced, hangUp, waiting, renewed atomic.Bool
		server := redistest.NewPiped(func(args []string) string {
			switch {
			case args[0] == "hello" && slices.Contains(args, "p1"):
				renewed.Store(true)
			case args[0] == "config":
				return "-ERR this service has no CONFIG\r\n"
			case args[0] == "ping" && hangUp.CompareAndSwap(true, false):
				return redistest.HangUp
			case args[0] == "subscribe" && !replaced.Load():
				return redistest.Push("subscribe", args[1], 1) + redistest.Push("message", args[1], "lpush")
			case args[0] == "subscribe" && !renewed.Load():
				waiting.Store(true)
				return redistest.Nothing
			}
			return redistest.Usual
		})
		h, secret := newSubscribedWithPassword(t, server)

		replaced.Store(true)
		hangUp.Store(true)
		h.Eventually(waiting.Load).Should(BeTrue())
		secret.set("p1")
		h.eventuallyJudged("emails", verify.ReasonUnverified)
	})
}

// The subscription moves to a new connection, which ends before anything is confirmed there. From then on nothing is
// announced.
func TestASubscriptionThatIsLostWhileItMovesWakes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var renewed atomic.Bool
		server := redistest.NewPiped(func(args []string) string {
			switch {
			case args[0] == "hello" && slices.Contains(args, "p1"):
				renewed.Store(true)
			case args[0] == "config":
				return "-ERR this service has no CONFIG\r\n"
			case args[0] == "subscribe" && renewed.Load():
				return redistest.HangUp
			case args[0] == "subscribe":
				return redistest.Push("subscribe", args[1], 1) + redistest.Push("message", args[1], "lpush")
			}
			return redistest.Usual
		})
		h, secret := newSubscribedWithPassword(t, server)
		secret.set("p1")
		h.eventuallyWoken("emails", coalesce.Lost, 1)
	})
}
