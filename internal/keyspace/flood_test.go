// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// restingFor sets how long keys with too many notifications rest.
func restingFor(d time.Duration) func(*harness) { return func(w *harness) { w.timing.restFor = d } }

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
	h.Eventually(h.recorded.received.Load).WithTimeout(timeout).Should(BeNumerically(">=", 5*budget.KeyBurst))
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
	h := newHarness(t, server.Addr(), restingFor(20*time.Millisecond), func(w *harness) { w.options.Tracking = shortened() })
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
			for range budget.KeyBurst + budget.KeyRate {
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
			return redistest.Push("subscribe", args[1], 1) + strings.Repeat(message, 3*budget.StrayBurst)
		})
		h.Ensure("emails", h.endpoint, list("emails"))
		h.eventuallyJudged("emails", verify.ReasonTooManyNotifications)
		time.Sleep(59 * time.Second)
		h.Expect(subscriptions.Load()).To(BeEquivalentTo(1))
		h.Expect(h.recorded.received.Load()).To(BeNumerically("<=", 2*budget.StrayBurst))
		h.Eventually(subscriptions.Load).WithTimeout(timeout).Should(BeEquivalentTo(2))
	})
}

// tally counts the marks of each namespace.
type tally struct {
	mu    sync.Mutex
	marks map[string]int
}

func (a *tally) mark(id ID, _ coalesce.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks[id.Namespace]++
}

// take returns the marks of a namespace since the last call.
func (a *tally) take(namespace string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.marks[namespace]
	delete(a.marks, namespace)
	return taken
}

// newWatched returns a set with two channels that are subscribed to, and who is marked.
func newWatched(c, d []ID) (x *channelSet, marked *tally) {
	marked = &tally{marks: map[string]int{}}
	x = newChannelSet(marked.mark, &budget.Namespaces{})
	for name, ids := range map[string][]ID{"c": c, "d": d} {
		for _, id := range ids {
			x.add(name, id)
		}
	}
	for _, name := range x.takeWanted(2) {
		x.subscribed(name)
	}
	clear(marked.marks)
	return x, marked
}

// idsOf returns so many ids of a namespace.
func idsOf(namespace string, count int) (ids []ID) {
	for i := range count {
		ids = append(ids, ID{Namespace: namespace, Name: strconv.Itoa(i)})
	}
	return ids
}

// Who watches a key with many ids pays for each of them. When it has taken too much, the key is tracked for all who watch
// it, and nobody's other keys are.
func TestAKeyIsPaidForByAllWhoWatchIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x, marked := newWatched(slices.Concat(idsOf("many", 1000), idsOf("one", 1)), idsOf("one", 2))
		for range 100 {
			x.event("c", coalesce.Growth)
		}
		g.Expect(marked.take("many")).To(BeNumerically("~", budget.NamespaceBurst, 3*1000), "and a mark for each when it rests")
		g.Expect(x.state("c").Crowded).To(BeTrue())
		g.Expect(x.state("d").Crowded).To(BeFalse())
		g.Expect(x.takeUnwanted(2)).To(ConsistOf("c"))
	})
}

// The keys of a namespace share its budget; those of another have their own.
func TestANamespaceHasOneBudgetForAllItsServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var budgets budget.Namespaces
		noisy, quiet := ID{Namespace: "noisy", Name: "a"}, ID{Namespace: "quiet", Name: "a"}
		var resting int
		for server := range 100 {
			x := newChannelSet(ignore, &budgets)
			x.add("c", noisy)
			x.add("d", quiet)
			for range 500 {
				x.event("c", coalesce.Growth)
			}
			if x.state("c").Crowded {
				resting++
			}
			x.event("d", coalesce.Growth)
			g.Expect(x.state("d").Crowded).To(BeFalse(), "server %d", server)
		}
		g.Expect(resting).To(Equal(60), "the first forty use up the budget")
	})
}

// What a server still sends of a key that is being left ends the session if it is too much, but others keep their
// notifications. A server that sends more in the next session is left.
func TestTheEndOfAFloodIsNotAFloodOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x, _ := newWatched(idsOf("noisy", 1), idsOf("quiet", 1))
		for range budget.KeyBurst + 1 {
			g.Expect(x.event("c", coalesce.Growth)).To(BeFalse())
		}
		g.Expect(x.takeUnwanted(1)).To(ConsistOf("c"))
		for range budget.StrayBurst {
			g.Expect(x.event("c", coalesce.Growth)).To(BeFalse(), "the session would end")
		}
		x.event("d", coalesce.Growth)
		g.Expect(x.state("d").Crowded).To(BeFalse())

		g.Expect(x.event("c", coalesce.Growth)).To(BeTrue())
		x.reset()
		g.Expect(x.state("d").Crowded).To(BeFalse())
		g.Expect(x.takeWanted(2)).To(ConsistOf("d"))
		g.Expect(x.event("c", coalesce.Growth)).To(BeTrue())
		x.reset()
		g.Expect(x.state("d").Crowded).To(BeTrue(), "the server is left for a while")
	})
}

// A message that nobody asked for costs the same however many namespaces use the server.
func TestAMessageThatNobodyAskedForIsCheap(t *testing.T) {
	x := newChannelSet(ignore, &budget.Namespaces{})
	for i := range 1000 {
		x.add("c", ID{Namespace: strconv.Itoa(i), Name: "a"})
	}
	NewWithT(t).Expect(testing.AllocsPerRun(1000, func() { x.event("unknown", coalesce.Growth) })).To(BeZero())
}

// A rest is over after a minute at most, and few notifications for another minute make them count as verified again.
func TestARestIsOverAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x, marked := newWatched(idsOf("a", 1), nil)
		floods := func() {
			for range budget.KeyBurst + 1 {
				x.event("c", coalesce.Growth)
			}
		}
		after := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		floods()
		g.Expect(x.state("c").Crowded).To(BeTrue())
		g.Expect(x.takeUnwanted(1)).To(ConsistOf("c"))
		x.unsubscribed("c")
		after(time.Minute - 1)
		g.Expect(x.takeWanted(1)).To(BeEmpty())

		after(1)
		marked.take("a")
		g.Expect(x.takeWanted(1)).To(ConsistOf("c"))
		x.subscribed("c")
		g.Expect(marked.take("a")).To(Equal(1), "a subscription begins with a wake")
		g.Expect(x.state("c").Crowded).To(BeTrue(), "the flood may go on")
		after(30 * time.Second)
		floods()
		g.Expect(x.takeUnwanted(1)).To(ConsistOf("c"))
		x.unsubscribed("c")

		after(30 * time.Second)
		g.Expect(x.takeWanted(1)).To(ConsistOf("c"))
		x.subscribed("c")
		marked.take("a")
		after(time.Minute - 1)
		g.Expect(x.state("c").Crowded).To(BeTrue())
		g.Expect(marked.take("a")).To(BeZero())
		after(1)
		g.Expect(x.state("c").Crowded).To(BeFalse())
		g.Expect(marked.take("a")).To(Equal(1), "the verdict has changed")
		after(time.Hour)
		g.Expect(x.resting).To(BeFalse(), "there is no timer without a flood")
	})
}
