// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// restingFor sets how long keys with too many notifications rest.
func restingFor(d time.Duration) func(*Watcher) { return func(w *Watcher) { w.timing.restFor = d } }

// unboundedOutput is a server that does not cut off a subscriber which takes a flood too slowly.
func unboundedOutput() redistest.Options {
	return redistest.Options{Args: []string{"--client-output-buffer-limit", "pubsub", "0", "0", "0"}}
}

// flood pushes to a list and pops from it as fast as the server lets it, until ctx is done.
func flood(ctx context.Context, server *redistest.Server, key string) {
	const atOnce = 1000
	for ctx.Err() == nil {
		pipe := server.Client().Pipeline()
		for range atOnce {
			pipe.LPush(ctx, key, 1)
			pipe.LPop(ctx, key)
		}
		_, _ = pipe.Exec(ctx)
	}
}

// floodUntil floods a key until the verdict on it is this one.
func (h *harness) floodUntil(server *redistest.Server, key string, want verify.Reason) {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	var flooding sync.WaitGroup
	defer flooding.Wait()
	defer stop()
	flooding.Go(func() { flood(ctx, server, key) })
	h.eventuallyJudged(key, want)
}

// The flood of one key is not taken for long. Its queue is tracked meanwhile, and other namespaces notice nothing.
func TestAFloodedKeyIsTracked(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, unboundedOutput())
	h := newHarness(t, server.Addr(), restingFor(time.Hour))
	quiet := ID{Namespace: "another", Name: "quiet"}
	stateOfQuiet := func() State { return h.Watcher.State(quiet) }
	h.Watcher.Ensure(quiet, h.endpoint, AnySource, list("quiet"))
	h.ensure("flooded")
	h.Eventually(stateOfQuiet).WithTimeout(timeout).Should(HaveField("Reason", verify.ReasonSubscribed))
	ctx, stop := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	defer flooding.Wait()
	defer stop()
	flooding.Go(func() { flood(ctx, server, "flooded") })

	h.eventuallyJudged("flooded", verify.ReasonTooManyNotifications)
	h.eventuallyTracked("flooded", verify.Tracked)
	h.Eventually(h.present).WithArguments("flooded").WithTimeout(timeout).Should(BeFalse())
	taken := h.recorded.received.Load()
	do(t, server, "lpush", "quiet", 1)
	h.eventually("quiet", 1)
	h.Consistently(h.recorded.received.Load).WithTimeout(time.Second).Should(BeNumerically("<=", taken+1))
	h.Expect(stateOfQuiet().Verdict).To(Equal(verify.Verdict{Reason: verify.ReasonSubscribed}))
	h.Expect(stateOfQuiet().Tracking).To(Equal(verify.NotTracked))

	stop()
	flooding.Wait()
	for depth := range int64(5) {
		do(t, server, "del", "flooded")
		for range depth + 1 {
			do(t, server, "lpush", "flooded", 1)
		}
		h.eventually("flooded", depth+1)
	}
	h.Expect(h.State("flooded").Reason).To(Equal(verify.ReasonTooManyNotifications))
}

// The negative control: whoever rests for no time takes the same flood to its end.
func TestAFloodIsTakenWithoutRests(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, unboundedOutput())
	h := newHarness(t, server.Addr(), restingFor(0))
	h.ensure("flooded")
	ctx, stop := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	defer flooding.Wait()
	defer stop()
	flooding.Go(func() { flood(ctx, server, "flooded") })
	h.Eventually(h.recorded.received.Load).WithTimeout(timeout).Should(BeNumerically(">=", 5*keyBurst))
}

// Where tracking is not available, the state says that the queue must be polled. It is also the negative control of
// the tests here: nothing tells of a push.
func TestAFloodedKeyIsPolledWithoutTracking(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, unboundedOutput())
	do(t, server, "acl", "setuser", "default", "-client|tracking")
	h := newHarness(t, server.Addr(), restingFor(time.Hour))
	h.ensure("flooded")
	h.floodUntil(server, "flooded", verify.ReasonTooManyNotifications)
	h.Expect(h.State("flooded").Tracking).To(Equal(verify.NotTracked))
	h.Expect(h.State("flooded").Announced()).To(BeFalse())
	h.Eventually(h.present).WithArguments("flooded").WithTimeout(timeout).Should(BeFalse())
	pushed := 0
	h.Eventually(func(g Gomega) { // The last wake because of the flood may be on its way.
		pushed++
		do(t, server, "del", "flooded")
		for range pushed {
			do(t, server, "lpush", "flooded", 1)
		}
		g.Consistently(h.depth).WithArguments("flooded").WithTimeout(time.Second).ShouldNot(BeEquivalentTo(pushed))
	}).WithTimeout(timeout).Should(Succeed())
}

func TestNotificationsAreUsedAgainAfterAFlood(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr(), restingFor(200*time.Millisecond))
	h.ensure("flooded")
	h.floodUntil(server, "flooded", verify.ReasonTooManyNotifications)
	do(t, server, "del", "flooded")
	h.eventuallyJudged("flooded", verify.ReasonSubscribed)
	h.eventuallyTracked("flooded", verify.NotTracked)
	do(t, server, "lpush", "flooded", 1)
	h.eventually("flooded", 1)
}

// Each key gets few pushes, at random moments, while forged notifications make it rest again and again. Nothing reads a
// key except after a wake.
func TestNoPushIsMissedWhileKeysAreFlooded(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	h := newHarness(t, server.Addr(), restingFor(20*time.Millisecond), func(w *Watcher) { w.options.Tracking = shortened() })
	const many = 50
	keys := make([]string, many)
	for i := range keys {
		keys[i] = "queue-" + strconv.Itoa(i)
	}
	h.ensure(keys...)
	ctx, stop := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	flooding.Go(func() {
		for ctx.Err() == nil {
			pipe := server.Client().Pipeline()
			channel := list(keys[rand.IntN(many)]).channel()
			for range keyBurst + keyRate {
				pipe.Publish(ctx, channel, "lpush")
			}
			_, _ = pipe.Exec(ctx)
		}
	})
	pushed, rests, began := map[string]int64{}, 0, time.Now()
	for i := 0; i < 2_000 || rests == 0 && time.Since(began) < timeout; i++ {
		key := keys[rand.IntN(many)]
		do(t, server, "lpush", key, 1)
		pushed[key]++
		if h.State(key).Reason == verify.ReasonTooManyNotifications {
			rests++
		}
		pause(t.Context(), time.Duration(rand.IntN(int(3*time.Millisecond))))
	}
	stop()
	flooding.Wait()
	h.Expect(rests).To(BeNumerically(">", 0), "keys were flooded")
	for key, times := range pushed {
		h.eventually(key, times)
	}
}

// A server that sends what nobody asked for is left, and tried again after a rest.
func TestNotificationsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	const message = "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$5\r\nlpush\r\n"
	synctest.Test(t, func(t *testing.T) {
		var subscriptions atomic.Int32
		h := newPiped(t, func(args []string) string {
			if args[0] != "subscribe" {
				return redistest.Usual
			}
			subscriptions.Add(1)
			return redistest.Push("subscribe", args[1], 1) + strings.Repeat(message, 3*namespaceBurst)
		})
		h.Ensure("emails", h.endpoint, list("emails"))
		h.eventuallyJudged("emails", verify.ReasonTooManyNotifications)
		time.Sleep(59 * time.Second)
		h.Expect(subscriptions.Load()).To(BeEquivalentTo(1))
		h.Expect(h.recorded.received.Load()).To(BeNumerically("<=", 2*namespaceBurst))
		h.Eventually(subscriptions.Load).WithTimeout(timeout).Should(BeEquivalentTo(2))
	})
}

// newShared returns a set with a channel that the namespaces watch with these numbers of ids, and what was marked.
func newShared(ids map[string]int) (x *channelSet, marked map[string]int) {
	marked = map[string]int{}
	x = newChannelSet(func(id ID, _ coalesce.Cause) { marked[id.Namespace]++ }, newBudgets())
	for namespace, many := range ids {
		for i := range many {
			x.add("c", ID{Namespace: namespace, Name: strconv.Itoa(i)})
		}
	}
	x.takeWanted(1)
	x.subscribed("c")
	clear(marked)
	return x, marked
}

// Who watches a key with many ids pays for each of them, and rests alone.
func TestAKeyIsPaidForByAllWhoWatchIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x, marked := newShared(map[string]int{"many": 1000, "one": 1})
		for range 1000 {
			x.event("c", coalesce.Growth)
		}
		g.Expect(marked["one"]).To(Equal(1000))
		g.Expect(marked["many"]).To(BeNumerically("<=", namespaceBurst+1000))
		g.Expect(x.state("c", "many").CalmAt).NotTo(BeZero())
		g.Expect(x.state("c", "one").CalmAt).To(BeZero())
		g.Expect(x.takeUnwanted(1)).To(BeEmpty(), "somebody needs the channel")
		x.remove("c", ID{Namespace: "one", Name: "0"})
		g.Expect(x.takeUnwanted(1)).To(ConsistOf("c"))
	})
}

// The keys of a namespace share its budget; those of another have their own.
func TestANamespaceHasOneBudgetForAllItsServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		budgets := newBudgets()
		noisy, quiet := ID{Namespace: "noisy", Name: "a"}, ID{Namespace: "quiet", Name: "a"}
		var resting int
		for server := range 100 {
			x := newChannelSet(ignore, budgets)
			x.add("c", noisy)
			x.add("d", quiet)
			for range 500 {
				x.event("c", coalesce.Growth)
			}
			if !x.state("c", "noisy").CalmAt.IsZero() {
				resting++
			}
			x.event("d", coalesce.Growth)
			g.Expect(x.state("d", "quiet").CalmAt).To(BeZero(), "server %d", server)
		}
		g.Expect(resting).To(Equal(60), "the first forty use up the budget")
	})
}

// A flood of one namespace ends no session that another one needs, and the other one pays for none of it, also after the
// one is gone.
func TestAFloodIsPaidForByWhoCausedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x := newChannelSet(ignore, newBudgets())
		noisy, quiet := ID{Namespace: "noisy", Name: "a"}, ID{Namespace: "quiet", Name: "a"}
		x.add("c", noisy)
		x.add("d", quiet)
		x.takeWanted(2)
		x.subscribed("c")
		x.subscribed("d")
		flood := func() {
			for range 5 * namespaceBurst {
				if _, flooded := x.event("c", coalesce.Growth); flooded {
					t.Fatal("the session would end")
				}
			}
		}
		flood()
		g.Expect(x.takeUnwanted(1)).To(ConsistOf("c"))
		x.remove("c", noisy)
		flood()
		rests, _ := x.event("d", coalesce.Growth)
		g.Expect(rests).To(BeFalse())
		g.Expect(x.state("d", "quiet").CalmAt).To(BeZero())
	})
}

// A rest is over after a minute, and few notifications for another minute make them count as verified again.
func TestARestIsOverAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x, marked := newShared(map[string]int{"a": 1})
		floods := func() {
			for range keyBurst + 1 {
				x.event("c", coalesce.Growth)
			}
		}
		floods()
		g.Expect(x.state("c", "a").CalmAt).To(BeTemporally("==", time.Now().Add(2*time.Minute)))
		g.Expect(x.takeUnwanted(1)).To(ConsistOf("c"))
		x.unsubscribed("c")
		g.Expect(x.retry(time.Now())).To(BeTemporally("==", time.Now().Add(time.Minute)))
		g.Expect(x.takeWanted(1)).To(BeEmpty())
		g.Expect(x.needed()).To(BeFalse())

		time.Sleep(time.Minute)
		clear(marked)
		g.Expect(x.retry(time.Now())).To(BeZero())
		g.Expect(x.takeWanted(1)).To(ConsistOf("c"))
		x.subscribed("c")
		g.Expect(marked["a"]).To(Equal(1), "a subscription begins with a wake")

		time.Sleep(time.Second)
		floods()
		g.Expect(x.state("c", "a").CalmAt).To(BeTemporally("==", time.Now().Add(2*time.Minute)), "the flood goes on")
	})
}

// A rest may end while others still need the subscription: no confirmation follows, so its end wakes.
func TestTheEndOfARestWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x, marked := newShared(map[string]int{"many": 1000, "one": 1})
		for range 100 {
			x.event("c", coalesce.Growth)
		}
		clear(marked)
		x.retry(time.Now().Add(x.restFor))
		g.Expect(marked).To(Equal(map[string]int{"many": 1000}))
	})
}
