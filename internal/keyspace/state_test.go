// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// judging makes a harness read nothing at a wake but the verdict. So a change of it that causes no wake is not seen.
func judging(configure bool) func(*harness) {
	return func(h *harness) {
		h.options.Configure = configure
		h.verdicts = map[string]verify.Verdict{}
		h.serve = func(_ context.Context, woken coalesce.Wake) {
			verdict := h.State(woken.ID.Name).Verdict
			h.mu.Lock()
			defer h.mu.Unlock()
			h.wakes = append(h.wakes, woken)
			h.verdicts[woken.ID.Name] = verdict
		}
	}
}

// watch watches lists, each by an id of the same name.
func (h *harness) watch(keys ...string) {
	for _, key := range keys {
		h.Ensure(key, h.endpoint, list(key))
	}
}

// eventuallyVerdict waits until the id was woken and got this verdict.
func (h *harness) eventuallyVerdict(id string, want verify.Verdict) {
	h.t.Helper()
	h.Eventually(func() verify.Verdict {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.verdicts[id]
	}).Should(Equal(want), id)
}

func TestTheSettingOfTheServerProves(t *testing.T) {
	h, server := newServed(t, redistest.Options{}, judging(false))
	h.Expect(h.State("emails")).To(Equal(State{}), "the id watches nothing")
	h.watch("emails", "other")
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	h.Expect(h.State("emails").Watchers).To(Equal(2))
	h.Expect(h.State("emails").LastEvent).To(BeZero())
	do(t, server, "rpush", "emails", 1)
	h.Eventually(func() time.Time { return h.State("emails").LastEvent }).ShouldNot(BeZero())
}

// A message that a worker has moved to a key in progress is not done yet.
func TestAnEndIsReportedOfFinalKeysOnly(t *testing.T) {
	h, server := newServed(t, redistest.Options{}, judging(false))
	h.Ensure("emails", h.endpoint, Key{Name: "emails", Class: verify.ClassList}, list("taken"))
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	do(t, server, "rpush", "emails", 1, 2)
	do(t, server, "lmove", "emails", "taken", "left", "right")
	h.watch("other")
	h.eventuallyVerdict("other", verify.Verdict{Reason: verify.ReasonSubscribed})
	do(t, server, "rpush", "other", 1) // Events arrive in order, so all earlier ones have arrived.
	h.Eventually(func() time.Time { return h.State("other").LastEvent }).ShouldNot(BeZero())
	h.Expect(h.State("emails").LastEnd).To(BeZero())
	do(t, server, "lrem", "taken", 0, 1)
	h.Eventually(func() time.Time { return h.State("emails").LastEnd }).ShouldNot(BeZero())
}

func TestAnEventProvesWhereTheSettingIsSecret(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "-config")
	h := newHarness(t, server.Addr(), judging(false))
	h.watch("emails", "other")
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonUnverified})

	do(t, server, "set", "unrelated", 1)
	do(t, server, "lpush", "emails", 1)
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	h.eventuallyVerdict("other", verify.Verdict{Reason: verify.ReasonSubscribed}) // proof for all keys of the class
}

// pushes has a command that adds an element to a key of the same name, for each class.
var pushes = map[verify.Class][]any{
	verify.ClassList:      {"rpush", "list", "a"},
	verify.ClassStream:    {"xadd", "stream", "*", "field", "value"},
	verify.ClassSortedSet: {"zadd", "sortedset", 1, "a"},
	verify.ClassSet:       {"sadd", "set", "a"},
	verify.ClassHash:      {"hset", "hash", "field", "value"},
}

func TestAnEventOfAClassWakesAndProvesThatClassOnly(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: "KA"})
	do(t, server, "acl", "setuser", "default", "-config")
	h := newHarness(t, server.Addr(), judging(false))
	unproven := map[string]bool{}
	for class, push := range pushes {
		id := fmt.Sprint(push[1])
		h.Ensure(id, h.endpoint, Key{Name: id, Class: class})
		unproven[id] = true
	}
	for id := range unproven {
		h.eventuallyVerdict(id, verify.Verdict{Reason: verify.ReasonUnverified})
	}
	for _, push := range pushes {
		id := fmt.Sprint(push[1])
		do(t, server, push...)
		h.eventuallyWoken(id, coalesce.Growth, 1)
		h.eventuallyVerdict(id, verify.Verdict{Reason: verify.ReasonSubscribed})
		delete(unproven, id)
		for id := range unproven {
			h.Expect(h.State(id).Reason).To(Equal(verify.ReasonUnverified), id)
		}
	}
}

func TestTheFlagsOfAllKeysOfAnIDAreWanted(t *testing.T) {
	h, server := newServed(t, redistest.Options{Events: "Klx"}, judging(false))
	h.watch("emails")
	h.Ensure("orders", h.endpoint, list("orders"), Key{Name: "late orders", Class: verify.ClassSortedSet}, Key{Name: "taken orders", Class: verify.ClassHash})
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	h.eventuallyVerdict("orders", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klghzx"})
	do(t, server, "config", "set", "notify-keyspace-events", "Klz")
	h.eventuallyVerdict("orders", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klghz"})
	do(t, server, "config", "set", "notify-keyspace-events", "Klzh")
	h.eventuallyVerdict("orders", verify.Verdict{Reason: verify.ReasonSubscribed})
}

// The setting is one for all databases of a server.
func TestTheFlagsOfOtherDatabasesAreWanted(t *testing.T) {
	h, _ := newServed(t, redistest.Options{Events: redistest.NoEvents}, judging(false))
	h.watch("emails")
	h.Ensure("taken", h.endpoint, Key{Database: 1, Name: "taken", Class: verify.ClassHash})
	all := verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klgh"}
	h.eventuallyVerdict("emails", all)
	h.eventuallyVerdict("taken", all)
}

// If the setting cannot be read and no events come, only the depths can show that there are no notifications.
func TestSilentGrowthDisproves(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	do(t, server, "acl", "setuser", "default", "-config")
	h := newHarness(t, server.Addr(), judging(false))
	h.watch("emails")
	h.Ensure("untold", h.endpoint, Key{Name: "untold", Class: verify.ClassSortedSet})
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonUnverified})

	var missed atomic.Int32
	h.Eventually(func() verify.Verdict {
		do(t, server, "zadd", "untold", time.Now().UnixNano(), time.Now().String())
		do(t, server, "lpush", "emails", 1)
		began := time.Now()
		depth := must.Get(server.Client().LLen(t.Context(), "emails").Result())(h)
		if h.Observed("emails", "emails", depth, began) {
			missed.Add(1)
		}
		return h.State("emails").Verdict
	}).Should(Equal(verify.Verdict{Reason: verify.ReasonNoEventsObserved}))
	h.Expect(missed.Load()).To(BeNumerically(">=", 1))
	h.Expect(h.State("untold").Reason).To(Equal(verify.ReasonUnverified), "Observed was not called for its depth")
	h.Expect(h.Observed("emails", "no such key", 1, time.Now())).To(BeFalse())
	h.Expect(h.Observed("no such id", "emails", 1, time.Now())).To(BeFalse())
}

// A short interruption does not change the verdict.
func TestAShortGapIsNotReported(t *testing.T) {
	t.Parallel()
	for gap, reported := range map[time.Duration]bool{
		verify.GracePeriod - time.Second: false,
		verify.GracePeriod + time.Second: true,
	} {
		t.Run(gap.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var hangUp atomic.Bool
				var subscriptions atomic.Int32
				h := newPiped(t, func(args []string) string {
					switch {
					case args[0] == "config":
						return "%1\r\n$22\r\nnotify-keyspace-events\r\n$3\r\nKlg\r\n"
					case args[0] == "ping" && hangUp.CompareAndSwap(true, false):
						return redistest.HangUp
					case args[0] == "subscribe" && subscriptions.Add(1) == 2:
						time.Sleep(gap)
					}
					return redistest.Usual
				})
				h.Ensure("emails", h.endpoint, list("emails"))
				h.eventuallyJudged("emails", verify.ReasonSubscribed)
				hangUp.Store(true)
				h.Eventually(h.recorded.ended.Load).Should(BeEquivalentTo(1))
				if reported {
					h.eventuallyJudged("emails", verify.ReasonUnreachable)
					h.eventuallyJudged("emails", verify.ReasonSubscribed)
					return
				}
				h.Consistently(h.reason).WithArguments("emails").WithTimeout(2 * gap).
					Should(Equal(verify.ReasonSubscribed))
				h.Expect(h.recorded.subscribed.Load()).To(BeTrue(), "the gap is over")
			})
		})
	}
}

// flagsOf returns the setting of the server.
func flagsOf(t *testing.T, server *redistest.Server) verify.Flags {
	t.Helper()
	answer := must.Get(server.Client().ConfigGet(t.Context(), verify.Parameter).Result())(NewWithT(t))
	return verify.Flags(answer[verify.Parameter]).Known()
}

// When a key of a new class is watched, the verdict is not NotConfigured while its flag is being added.
func TestTheFlagsOfAClassThatComesLaterAreAdded(t *testing.T) {
	h, server := newServed(t, redistest.Options{Events: "Ex"}, judging(true))
	h.watch("emails")
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	h.Expect(flagsOf(t, server)).To(BeEquivalentTo("KElgx"))

	h.Ensure("emails", h.endpoint, Key{Name: "emails", Class: verify.ClassStream})
	h.Expect(h.State("emails").Reason).NotTo(Equal(verify.ReasonNotConfigured))
	h.Eventually(func() verify.Flags { return flagsOf(t, server) }).Should(BeEquivalentTo("KElgtx"))
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	do(t, server, "xadd", "emails", "*", "field", "value")
	h.eventuallyWoken("emails", coalesce.Growth, 1)
}

// After a rejected change the setting is read again only after a minute, unless a key of a new class is watched.
func TestTheFlagsOfAClassThatComesAfterARefusalAreAdded(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents, User: "admin"})
	do(t, server, "acl", "setuser", "default", "-config|set")
	h := newHarness(t, server.Addr(), judging(true))
	h.watch("emails")
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	do(t, server, "acl", "setuser", "default", "+config|set")
	h.Ensure("members", h.endpoint, Key{Name: "members", Class: verify.ClassSet})
	h.eventuallyVerdict("members", verify.Verdict{Reason: verify.ReasonSubscribed})
	h.eventuallyVerdict("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	h.Expect(flagsOf(t, server)).To(BeEquivalentTo("Klgs"))
}

// configurable is a server whose setting can be changed. It answers two reads at a time if there are two, so that both
// readers know the same value.
type configurable struct {
	pair  chan struct{}
	ended <-chan struct{}
	flags atomic.Pointer[string]
	// lost is true after a flag was removed.
	lost atomic.Bool
}

func newConfigurable(t *testing.T, flags string) *configurable {
	t.Helper()
	c := &configurable{pair: make(chan struct{}), ended: t.Context().Done()}
	c.flags.Store(&flags)
	return c
}

func (c *configurable) answer(args []string) string {
	switch {
	case args[0] != "config":
		return redistest.Usual
	case args[1] == "set":
		if before := c.flags.Swap(&args[3]); strings.Trim(*before, args[3]) != "" {
			c.lost.Store(true)
		}
		return "+OK\r\n"
	}
	now := *c.flags.Load()
	select {
	case c.pair <- struct{}{}:
	case <-c.pair:
	case <-c.ended:
	case <-time.After(time.Second / 2): // before the read times out
	}
	return fmt.Sprintf("%%1\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(verify.Parameter), verify.Parameter, len(now), now)
}

// A server has one setting for all its databases and users. Redis can only set the whole value, so two who add flags to
// what they have read could each remove those of the other.
func TestFlagsAreAddedForAllDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]Key{
		"of another database": {Database: 1, Name: "others", Class: verify.ClassStream},
		"of another user":     {Database: 0, Name: "others", Class: verify.ClassStream},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				server := newConfigurable(t, "x")
				h := newPiped(t, server.answer, func(h *harness) { h.options.Configure = true })
				another := h.endpoint
				if others.Database == 0 {
					another.Username = "another"
				}
				h.Expect(h.read(t.Context(), another, "others")).To(BeZero()) // From now on it has credentials.
				h.Ensure("emails", h.endpoint, list("emails"))
				h.Ensure("others", another, others)
				h.eventuallyJudged("emails", verify.ReasonSubscribed)
				h.eventuallyJudged("others", verify.ReasonSubscribed)
				h.Expect(verify.Flags(*server.flags.Load()).Known()).To(BeEquivalentTo("Klgtx"))
				h.Expect(server.lost.Load()).To(BeFalse())
			})
		})
	}
}
