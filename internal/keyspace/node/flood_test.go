// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// newWatched returns a node with two keys that are subscribed to, and how often each namespace was marked since.
func newWatched(budgets *budget.Namespaces, c, d []ID) (n *Node, marked map[string]int) {
	marked = map[string]int{}
	n = New(Options{
		Wake: func(id ID, _ coalesce.Cause) { marked[id.Namespace]++ }, Budgets: budgets, Recorder: &harness{}, Timing: DefaultTiming(),
	})
	n.received = func() { /* not counted */ }
	n.evidence.SettingRead(verify.Setting{Readable: true}, time.Now())
	for name, ids := range map[string][]ID{"c": c, "d": d} {
		for _, id := range ids {
			n.Watch(name, id, byNotifications, false)
		}
	}
	confirm(n)
	clear(marked)
	return n, marked
}

// confirm is the confirmation of what is to be subscribed to. It returns the keys.
func confirm(n *Node) []string {
	names := take(n.toSubscribe, subscribing)
	for _, name := range names {
		n.subscribed(name)
	}
	return names
}

// end is the confirmation of what is to be unsubscribed from. It returns the keys.
func end(n *Node) []string {
	names := take(n.toUnsubscribe, unsubscribing)
	for _, name := range names {
		n.unsubscribed(name)
	}
	return names
}

func push(n *Node, key string) error { return n.event(channelOf(key), "lpush") }

func isFlooded(n *Node, key string) bool { return n.State(key).Subscription.Flooded }

// idsOf returns so many ids of a namespace.
func idsOf(namespace string, count int) (ids []ID) {
	for i := range count {
		ids = append(ids, ID{Namespace: namespace, Name: strconv.Itoa(i)})
	}
	return ids
}

// Who watches a key with many ids pays for each of them. When it has taken too much, the key is tracked for all who
// watch it, and nobody's other keys are.
func TestAKeyIsPaidForByAllWhoWatchIt(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		n, marked := newWatched(&budget.Namespaces{}, slices.Concat(idsOf("many", 1000), idsOf("one", 1)), idsOf("one", 2))
		for !isFlooded(n, "c") {
			g.Expect(push(n, "c")).To(Succeed())
		}
		g.Expect(marked["many"]).To(BeNumerically("~", budget.NamespaceBurst, 3*1000), "and a wake for each when it is suspended")
		g.Expect(isFlooded(n, "d")).To(BeFalse())
		g.Expect(end(n)).To(ConsistOf("c"))
	})
}

// The keys of a namespace share its budget; those of another have their own.
func TestANamespaceHasOneBudgetForAllItsServers(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		var budgets budget.Namespaces
		var suspended int
		for server := range 100 {
			n, _ := newWatched(&budgets, idsOf("noisy", 1), idsOf("quiet", 1))
			for range 500 {
				g.Expect(push(n, "c")).To(Succeed())
			}
			if isFlooded(n, "c") {
				suspended++
			}
			g.Expect(push(n, "d")).To(Succeed())
			g.Expect(isFlooded(n, "d")).To(BeFalse(), "server %d", server)
		}
		g.Expect(suspended).To(Equal(60), "the first forty use up the budget")
	})
}

// What a server still sends of a key that is being left ends no session that another namespace needs, unless it is a
// flood of its own.
func TestTheEndOfAFloodEndsNoSession(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		n, _ := newWatched(&budget.Namespaces{}, idsOf("noisy", 1), idsOf("quiet", 1))
		for range budget.KeyBurst + 1 {
			g.Expect(push(n, "c")).To(Succeed())
		}
		leaving := take(n.toUnsubscribe, unsubscribing)
		g.Expect(leaving).To(ConsistOf("c"))
		for range budget.UnsolicitedBurst {
			g.Expect(push(n, "c")).To(Succeed(), "the session would end")
		}
		g.Expect(push(n, "d")).To(Succeed())
		g.Expect(isFlooded(n, "d")).To(BeFalse())

		g.Expect(push(n, "c")).To(MatchError(errFlooded))
		g.Expect(isFlooded(n, "d")).To(BeFalse(), "the server may have sent nothing of it")
		n.unsubscribed("c")
		g.Expect(push(n, "c")).To(MatchError(errFlooded))
		g.Expect(isFlooded(n, "d")).To(BeTrue(), "the server is left for a while")
	})
}

// A message that nobody asked for costs the same however many namespaces use the server.
func TestAMessageThatNobodyAskedForIsCheap(t *testing.T) {
	n, _ := newWatched(&budget.Namespaces{}, nil, nil)
	for i := range 1000 {
		n.Watch("c", ID{Namespace: strconv.Itoa(i), Name: "a"}, byNotifications, false)
	}
	NewWithT(t).Expect(testing.AllocsPerRun(1000, func() { _ = push(n, "unknown") })).To(BeZero())
}

// A rest is over after a minute at most, and few notifications for another minute make them count as verified again.
func TestARestIsOverAfterAMinute(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		n, marked := newWatched(&budget.Namespaces{}, idsOf("a", 1), nil)
		floods := func() {
			for range budget.KeyBurst + 1 {
				g.Expect(push(n, "c")).To(Succeed())
			}
		}
		after := func(d time.Duration) {
			time.Sleep(d)
			n.resume(time.Now())
		}
		floods()
		g.Expect(isFlooded(n, "c")).To(BeTrue())
		g.Expect(end(n)).To(ConsistOf("c"))
		after(time.Minute - 1)
		g.Expect(confirm(n)).To(BeEmpty())

		clear(marked)
		after(1)
		g.Expect(confirm(n)).To(ConsistOf("c"))
		g.Expect(marked["a"]).To(Equal(1), "a subscription begins with a wake")
		g.Expect(isFlooded(n, "c")).To(BeTrue(), "the flood may go on")
		after(30 * time.Second)
		floods()
		g.Expect(end(n)).To(ConsistOf("c"))

		after(30 * time.Second)
		g.Expect(confirm(n)).To(ConsistOf("c"))
		clear(marked)
		after(time.Minute - 1)
		g.Expect(isFlooded(n, "c")).To(BeTrue())
		g.Expect(marked["a"]).To(BeZero())
		after(1)
		g.Expect(isFlooded(n, "c")).To(BeFalse())
		g.Expect(marked["a"]).To(Equal(1), "the verdict has changed")
	})
}

// Events name the watchers of their key and nobody else, whatever the names are.
func FuzzEvents(f *testing.F) {
	f.Add("emails", "emails2", "lpush")
	f.Add("emails", "__keyspace@0__:emails", "lpop")
	f.Add("", "*", "")
	f.Add("a\x00b", "a", "LPUSH")
	f.Add("[a-z]*", "emails", "expired")
	f.Fuzz(func(t *testing.T, watched, other, event string) {
		g := NewWithT(t)
		var ids []string
		n := New(Options{
			Wake: func(id ID, _ coalesce.Cause) { ids = append(ids, id.Name) }, Budgets: &budget.Namespaces{}, Recorder: &harness{},
		})
		n.received = func() { /* not counted */ }
		n.evidence.SettingRead(verify.Setting{Readable: true}, time.Now())
		n.Watch(watched, named("watcher"), byNotifications, false)
		n.Watch(watched+"2", named("neighbour"), byNotifications, false)
		confirm(n)
		marked := func(channel string) []string {
			ids = nil
			g.Expect(n.event(channel, event)).To(Succeed())
			return ids
		}
		known, is := meanings[event]
		if meaningOf(event).cause != coalesce.None {
			g.Expect(marked(channelOf(watched))).To(ConsistOf("watcher"))
		}
		if other != watched && other != watched+"2" {
			g.Expect(marked(channelOf(other))).To(BeEmpty())
		}
		if !strings.HasPrefix(watched, channelOf("")) {
			g.Expect(marked(watched)).To(BeEmpty())
		}
		g.Expect(meaningOf(event).cause == coalesce.Growth).To(Equal(!is || known.cause == coalesce.Growth))
		g.Expect(is || meaningOf(event).class == 0).To(BeTrue(), "an unknown event proves nothing")
	})
}

// newReceiver returns a session whose node has ten subscriptions, and a notification of one of them.
func newReceiver() (s *session, notification resp.Push) {
	n, _ := newWatched(&budget.Namespaces{}, nil, nil)
	for i := range 10 {
		n.Watch("queue-"+strconv.Itoa(i), ID{Namespace: "tenant", Name: strconv.Itoa(i)}, byNotifications, false)
	}
	confirm(n)
	return &session{node: n}, resp.Push{"message", channelOf("queue-7"), "lpush"}
}

// Most notifications of a queue that grows fast change nothing: a wake is pending.
func TestNotificationThatChangesNothingAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	s, notification := newReceiver()
	s.node.received = metrics.New(prometheus.NewRegistry()).Received("redis:6379")
	var message any = notification
	g.Expect(s.handle(message)).To(Succeed())
	g.Expect(testing.AllocsPerRun(1000, func() { _ = s.handle(message) })).To(BeZero())
}

// BenchmarkNotification measures a notification of a queue that grows fast, from when its message was read.
func BenchmarkNotification(b *testing.B) {
	s, notification := newReceiver()
	var message any = notification
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%budget.KeyBurst == 0 { // They are not too many.
			s.node.options.Budgets, s.node.keys["queue-7"].sub.taken = &budget.Namespaces{}, budget.NewKey()
		}
		if err := s.handle(message); err != nil {
			b.Fatal(err)
		}
	}
}
