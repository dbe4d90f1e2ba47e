// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// ignore is a mark function that does nothing.
func ignore(ID, coalesce.Cause) { /* nothing to do */ }

func TestSetSubscribesOnceForAllWhoWatch(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var marked []string
	x := newChannelSet(func(id ID, cause coalesce.Cause) { marked = append(marked, id.Name+" "+cause.String()) }, &budget.Namespaces{})
	g.Expect(x.add("c", named("a"))).To(BeFalse())
	g.Expect(x.add("c", named("b"))).To(BeFalse())
	g.Expect(x.takeWanted(10)).To(ConsistOf("c"))
	g.Expect(x.takeWanted(10)).To(BeEmpty())
	x.subscribed("c")
	g.Expect(x.add("c", named("late"))).To(BeTrue(), "there is no further confirmation")

	g.Expect(marked).To(ConsistOf("a Confirmed", "b Confirmed"))
	marked = nil
	x.event("c", coalesce.Growth)
	x.event("unknown", coalesce.Growth)
	g.Expect(marked).To(ConsistOf("a Growth", "b Growth", "late Growth"))

	x.remove("c", named("a"))
	x.remove("c", named("late"))
	g.Expect(x.takeUnwanted(10)).To(BeEmpty())
	x.remove("c", named("b"))
	x.remove("c", named("b"))
	g.Expect(x.takeUnwanted(10)).To(ConsistOf("c"))
	x.unsubscribed("c")
	g.Expect(x.channels).To(BeEmpty())
}

func TestSetOfAChannelThatIsLeftAndWatchedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		again     func(x *channelSet) (confirmed bool)
		confirmed bool
		wanted    []string
	}{
		"before it is unsubscribed": {
			again: func(x *channelSet) bool {
				x.remove("c", named("a"))
				return x.add("c", named("a"))
			},
			confirmed: true,
		},
		"while it is unsubscribed": {
			again: func(x *channelSet) bool {
				x.remove("c", named("a"))
				x.takeUnwanted(1)
				confirmed := x.add("c", named("a"))
				x.unsubscribed("c")
				return confirmed
			},
			wanted: []string{"c"},
		},
		"after it was unsubscribed": {
			again: func(x *channelSet) bool {
				x.remove("c", named("a"))
				x.takeUnwanted(1)
				x.unsubscribed("c")
				return x.add("c", named("a"))
			},
			wanted: []string{"c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			x := newChannelSet(ignore, &budget.Namespaces{})
			x.add("c", named("a"))
			x.takeWanted(1)
			x.subscribed("c")
			g.Expect(test.again(x)).To(Equal(test.confirmed))
			g.Expect(x.takeUnwanted(1)).To(BeEmpty())
			g.Expect(x.takeWanted(1)).To(ConsistOf(test.wanted))
		})
	}
}

func TestSetOfAChannelThatIsLeftWhileSubscribing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	x := newChannelSet(ignore, &budget.Namespaces{})
	x.add("confirmed", named("a"))
	x.add("refused", named("a"))
	x.takeWanted(2)
	x.remove("confirmed", named("a"))
	x.remove("refused", named("a"))
	x.subscribed("confirmed")
	x.refused([]string{"refused"}, true, time.Now())
	g.Expect(x.channels).To(And(HaveLen(1), HaveKey("confirmed")))
	g.Expect(x.takeUnwanted(2)).To(ConsistOf("confirmed"))
}

func TestSetRetriesRefusedChannelsLater(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	var marked []string
	x := newChannelSet(func(_ ID, cause coalesce.Cause) { marked = append(marked, cause.String()) }, &budget.Namespaces{})
	x.add("c", named("a"))
	x.takeWanted(1)
	x.refused([]string{"c"}, true, now.Add(time.Minute))
	x.reset()
	g.Expect(x.takeWanted(1)).To(BeEmpty(), "a new session does not retry it earlier")
	g.Expect(x.retry(now.Add(59 * time.Second))).To(Equal(now.Add(time.Minute)))
	g.Expect(x.retry(now.Add(time.Minute))).To(BeZero())
	g.Expect(x.takeWanted(1)).To(ConsistOf("c"))
	g.Expect(x.retry(now.Add(time.Minute))).To(BeZero())
	x.refused([]string{"c"}, true, now.Add(2*time.Minute))
	g.Expect(marked).To(HaveExactElements("Changed"), "the first refusal changes the verdict")
}

// TestSetReachesWhatIsWatched lets a server confirm everything that a set sends, with events in any order, and checks
// that the server ends up with exactly the watched channels.
func TestSetReachesWhatIsWatched(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		now := time.Now()
		server := map[string]bool{} // subscribed channels
		lost := map[ID]bool{}
		x := newChannelSet(func(id ID, cause coalesce.Cause) {
			if cause == coalesce.Lost {
				lost[id] = true
			}
		}, &budget.Namespaces{})
		x.restFor = time.Hour
		watched := map[string]map[ID]bool{}
		name := rapid.Map(rapid.IntRange(0, 4), strconv.Itoa)
		id := rapid.Map(rapid.IntRange(0, 2), func(i int) ID { return named(strconv.Itoa(i)) })
		var subscribing, unsubscribing []string
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c, id := name.Draw(t, "channel"), id.Draw(t, "id")
				if watched[c][id] {
					return
				}
				if x.add(c, id) { // It is not true either while the channel is crowded.
					g.Expect(server).To(HaveKey(c), "add returned true, so the channel must be subscribed to")
				}
				if watched[c] == nil {
					watched[c] = map[ID]bool{}
				}
				watched[c][id] = true
			},
			"remove": func(t *rapid.T) {
				c, id := name.Draw(t, "channel"), id.Draw(t, "id")
				x.remove(c, id)
				delete(watched[c], id)
			},
			"send": func(t *rapid.T) {
				limit := rapid.IntRange(1, 3).Draw(t, "limit")
				if len(subscribing)+len(unsubscribing) == 0 {
					if subscribing = x.takeWanted(limit); len(subscribing) == 0 {
						unsubscribing = x.takeUnwanted(limit)
					}
				}
			},
			"answer": func(*rapid.T) {
				confirm(x, server, subscribing, unsubscribing)
				subscribing, unsubscribing = nil, nil
			},
			"flood": func(t *rapid.T) {
				c := name.Draw(t, "channel")
				for range rapid.IntRange(budget.KeyBurst, 2*budget.KeyBurst).Draw(t, "events") {
					x.event(c, coalesce.Growth)
				}
			},
			"rests end": func(*rapid.T) { x.resume() },
			"time passes": func(t *rapid.T) {
				x.retry(time.Now().Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second))
			},
			"refuse": func(*rapid.T) {
				x.refused(subscribing, true, now.Add(time.Minute))
				subscribing = nil
			},
			"reset": func(*rapid.T) {
				x.reset()
				for c := range server {
					for id := range watched[c] {
						g.Expect(lost).To(HaveKey(id), "the end of a subscription marks its ids")
					}
				}
				clear(server)
				clear(lost)
				subscribing, unsubscribing = nil, nil
			},
		})
		confirm(x, server, subscribing, unsubscribing)
		x.retry(now.Add(time.Hour))
		x.resume()
		for range 2 { // A channel that is unsubscribed in the first round may be wanted in the second.
			confirm(x, server, nil, x.takeUnwanted(100))
			confirm(x, server, x.takeWanted(100), nil)
		}
		want := map[string]bool{}
		for c, ids := range watched {
			if len(ids) > 0 {
				want[c] = true
			}
		}
		g.Expect(server).To(Equal(want))
		g.Expect(x.channels).To(HaveLen(len(want)))
	})
}

// confirm sends the confirmations of a server.
func confirm(x *channelSet, server map[string]bool, subscribing, unsubscribing []string) {
	for _, c := range subscribing {
		server[c] = true
		x.subscribed(c)
	}
	for _, c := range unsubscribing {
		delete(server, c)
		x.unsubscribed(c)
	}
}

func TestSetWakesWhereMessagesCome(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var woken []string
	x := newChannelSet(func(id ID, cause coalesce.Cause) {
		if cause == coalesce.Changed {
			woken = append(woken, id.Name)
		}
	}, &budget.Namespaces{})
	x.add("present", named("a"))
	x.add("leaving", named("b"))
	x.takeWanted(2)
	x.subscribed("present")
	x.subscribed("leaving")
	x.remove("leaving", named("b"))
	x.takeUnwanted(1)
	x.add("leaving", named("c"))
	x.add("absent", named("d"))
	x.wakeAll()
	g.Expect(woken).To(ConsistOf("a", "c"), "messages come until the server confirms UNSUBSCRIBE")
}

// The state of a subscription has the time of its last change. The times of events are kept when a session ends.
// An event such as expire says nothing about the number of elements.
func TestSetWakesNobodyForAnEventOfNoMeaning(t *testing.T) {
	t.Parallel()
	var marked []string
	x := newChannelSet(func(id ID, cause coalesce.Cause) { marked = append(marked, id.Name+" "+cause.String()) }, &budget.Namespaces{})
	x.add("jobs", named("mail"))
	x.subscribed("jobs")
	for _, cause := range []coalesce.Cause{coalesce.None, coalesce.Growth, coalesce.None} {
		x.event("jobs", cause)
	}
	NewWithT(t).Expect(marked).To(HaveExactElements("mail Confirmed", "mail Growth"))
}

func TestSetTellsSinceWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		x := newChannelSet(ignore, &budget.Namespaces{})
		g.Expect(x.state("c")).To(BeZero(), "nobody watches the channel")
		begun := time.Now()
		after := func(minutes int) time.Time { return begun.Add(time.Duration(minutes) * time.Minute) }
		x.add("c", named("a"))
		g.Expect(x.state("c")).To(Equal(verify.Subscription{Since: begun}))

		time.Sleep(time.Minute)
		x.takeWanted(1)
		g.Expect(x.state("c")).To(Equal(verify.Subscription{Since: begun}), "the subscription is not confirmed")
		x.subscribed("c")
		g.Expect(x.state("c")).To(Equal(verify.Subscription{Present: true, Since: after(1)}))

		time.Sleep(time.Minute)
		x.event("c", coalesce.Growth)
		time.Sleep(time.Minute)
		x.event("c", coalesce.Shrink)
		want := verify.Subscription{Present: true, Since: after(1), HeardAt: after(2), ShrunkAt: after(3)}
		g.Expect(x.state("c")).To(Equal(want))

		time.Sleep(time.Minute)
		x.reset()
		time.Sleep(time.Minute)
		x.reset()
		want.Present, want.Since = false, after(4)
		g.Expect(x.state("c")).To(Equal(want), "a session that confirms nothing changes nothing")

		x.takeWanted(1)
		x.refused([]string{"c"}, true, after(9))
		want.Forbidden = true
		g.Expect(x.state("c")).To(Equal(want))
	})
}
