// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"fmt"
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

// verdictHarness is a running watcher, the verdict that each id got at its last wake, and the ids that growth has woken.
// Verdicts are read only at wakes, so a change that causes no wake is not seen.
type verdictHarness struct {
	*harness
	verdicts sync.Map // id to verify.Verdict
	grown    sync.Map // id to true
}

func newVerdictHarness(t *testing.T, server *redistest.Server, configure bool) *verdictHarness {
	t.Helper()
	j := &verdictHarness{}
	j.harness = newHarness(t, server.Addr(), func(w *harness) {
		w.options.Configure = configure
		w.serve = func(_ context.Context, woken coalesce.Wake) {
			j.verdicts.Store(woken.ID.Name, w.State(woken.ID.Name).Verdict)
			if woken.Cause == coalesce.Growth {
				j.grown.Store(woken.ID.Name, true)
			}
		}
	})
	return j
}

// watch watches lists, each by an id of the same name.
func (j *verdictHarness) watch(keys ...string) {
	for _, key := range keys {
		j.Ensure(key, j.endpoint, list(key))
	}
}

// eventually waits until the id was woken and got this verdict.
func (j *verdictHarness) eventually(id string, want verify.Verdict) {
	j.t.Helper()
	j.Eventually(func() any {
		verdict, _ := j.verdicts.Load(id)
		return verdict
	}).WithTimeout(timeout).Should(Equal(want), id)
}

// eventuallyGrown waits until growth has woken the id.
func (j *verdictHarness) eventuallyGrown(id string) {
	j.t.Helper()
	j.Eventually(func() bool {
		_, grown := j.grown.Load(id)
		return grown
	}).WithTimeout(timeout).Should(BeTrue(), id)
}

func TestTheSettingOfTheServerProves(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newVerdictHarness(t, server, false)
	j.Expect(j.State("emails")).To(Equal(State{}), "the id watches nothing")
	j.watch("emails", "other")
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	j.Expect(j.State("emails").Watchers).To(Equal(2))
	j.Expect(j.State("emails").LastEvent).To(BeZero())
	do(t, server, "rpush", "emails", 1)
	j.Eventually(func() time.Time { return j.State("emails").LastEvent }).WithTimeout(timeout).ShouldNot(BeZero())
}

// A message that a worker has moved to a key in progress is not done yet.
func TestAnEndIsToldOfFinalKeysAlone(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newVerdictHarness(t, server, false)
	j.Ensure("emails", j.endpoint, Key{Name: "emails", Class: verify.ClassList}, list("taken"))
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	do(t, server, "rpush", "emails", 1, 2)
	do(t, server, "lmove", "emails", "taken", "left", "right")
	j.watch("other")
	j.eventually("other", verify.Verdict{Reason: verify.ReasonSubscribed})
	do(t, server, "rpush", "other", 1) // Events arrive in order, so all earlier ones have arrived.
	j.Eventually(func() time.Time { return j.State("other").LastEvent }).WithTimeout(timeout).ShouldNot(BeZero())
	j.Expect(j.State("emails").LastEnd).To(BeZero())
	do(t, server, "lrem", "taken", 0, 1)
	j.Eventually(func() time.Time { return j.State("emails").LastEnd }).WithTimeout(timeout).ShouldNot(BeZero())
}

func TestAnEventProvesWhereTheSettingIsSecret(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "-config")
	j := newVerdictHarness(t, server, false)
	j.watch("emails", "other")
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonUnverified})

	do(t, server, "set", "unrelated", 1)
	do(t, server, "lpush", "emails", 1)
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	j.eventually("other", verify.Verdict{Reason: verify.ReasonSubscribed}) // proof for all keys of the class
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
	j := newVerdictHarness(t, server, false)
	unproven := map[string]bool{}
	for class, push := range pushes {
		id := fmt.Sprint(push[1])
		j.Ensure(id, j.endpoint, Key{Name: id, Class: class})
		unproven[id] = true
	}
	for id := range unproven {
		j.eventually(id, verify.Verdict{Reason: verify.ReasonUnverified})
	}
	for _, push := range pushes {
		id := fmt.Sprint(push[1])
		do(t, server, push...)
		j.eventuallyGrown(id)
		j.eventually(id, verify.Verdict{Reason: verify.ReasonSubscribed})
		delete(unproven, id)
		for id := range unproven {
			j.Expect(j.State(id).Reason).To(Equal(verify.ReasonUnverified), id)
		}
	}
}

func TestTheFlagsOfAllKeysOfAnIDAreWanted(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: "Klx"})
	j := newVerdictHarness(t, server, false)
	j.watch("emails")
	j.Ensure("orders", j.endpoint, list("orders"), Key{Name: "late orders", Class: verify.ClassSortedSet}, Key{Name: "taken orders", Class: verify.ClassHash})
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	j.eventually("orders", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klghzx"})
	do(t, server, "config", "set", "notify-keyspace-events", "Klz")
	j.eventually("orders", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klghz"})
	do(t, server, "config", "set", "notify-keyspace-events", "Klzh")
	j.eventually("orders", verify.Verdict{Reason: verify.ReasonSubscribed})
}

// The setting is one for all databases of a server.
func TestTheFlagsOfOtherDatabasesAreWanted(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	j := newVerdictHarness(t, server, false)
	j.watch("emails")
	j.Ensure("taken", j.endpoint, Key{Database: 1, Name: "taken", Class: verify.ClassHash})
	all := verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klgh"}
	j.eventually("emails", all)
	j.eventually("taken", all)
}

// If the setting cannot be read and no events come, only the depths can show that there are no notifications.
func TestSilentGrowthDisproves(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	do(t, server, "acl", "setuser", "default", "-config")
	j := newVerdictHarness(t, server, false)
	j.watch("emails")
	j.Ensure("untold", j.endpoint, Key{Name: "untold", Class: verify.ClassSortedSet})
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonUnverified})

	var missed atomic.Int32
	j.Eventually(func() verify.Verdict {
		do(t, server, "zadd", "untold", time.Now().UnixNano(), time.Now().String())
		do(t, server, "lpush", "emails", 1)
		began := time.Now()
		depth, err := server.Client().LLen(t.Context(), "emails").Result()
		j.Expect(err).NotTo(HaveOccurred())
		if j.Observed("emails", "emails", depth, began) {
			missed.Add(1)
		}
		return j.State("emails").Verdict
	}).WithTimeout(timeout).Should(Equal(verify.Verdict{Reason: verify.ReasonNoEventsObserved}))
	j.Expect(missed.Load()).To(BeNumerically(">=", 1))
	j.Expect(j.State("untold").Reason).To(Equal(verify.ReasonUnverified), "Observed was not called for its depth")
	j.Expect(j.Observed("emails", "no such key", 1, time.Now())).To(BeFalse())
	j.Expect(j.Observed("no such id", "emails", 1, time.Now())).To(BeFalse())
}

// A short interruption does not change the verdict.
func TestAShortGapIsNotTold(t *testing.T) {
	t.Parallel()
	for gap, told := range map[time.Duration]bool{
		verify.GracePeriod - time.Second: false,
		verify.GracePeriod + time.Second: true,
	} {
		t.Run(gap.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
				h.Eventually(h.recorded.ended.Load).WithTimeout(timeout).Should(BeEquivalentTo(1))
				if told {
					h.eventuallyJudged("emails", verify.ReasonUnreachable)
					h.eventuallyJudged("emails", verify.ReasonSubscribed)
					return
				}
				h.Consistently(func() verify.Reason { return h.State("emails").Reason }).WithTimeout(2 * gap).
					Should(Equal(verify.ReasonSubscribed))
				h.Expect(h.recorded.subscribed.Load()).To(BeTrue(), "the gap is over")
			})
		})
	}
}

// flagsOf returns the setting of the server.
func flagsOf(t *testing.T, server *redistest.Server) verify.Flags {
	t.Helper()
	answer, err := server.Client().ConfigGet(t.Context(), verify.Parameter).Result()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return verify.Flags(answer[verify.Parameter]).Known()
}

// When a key of a new class is watched, the verdict is not NotConfigured while its flag is being added.
func TestTheFlagsOfAClassThatComesLaterAreAdded(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: "Ex"})
	j := newVerdictHarness(t, server, true)
	j.watch("emails")
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	j.Expect(flagsOf(t, server)).To(BeEquivalentTo("KElgx"))

	j.Ensure("emails", j.endpoint, Key{Name: "emails", Class: verify.ClassStream})
	j.Expect(j.State("emails").Reason).NotTo(Equal(verify.ReasonNotConfigured))
	j.Eventually(func() verify.Flags { return flagsOf(t, server) }).WithTimeout(timeout).Should(BeEquivalentTo("KElgtx"))
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	do(t, server, "xadd", "emails", "*", "field", "value")
	j.eventuallyGrown("emails")
}

// After a rejected change the setting is read again only after a minute, unless a key of a new class is watched.
func TestTheFlagsOfAClassThatComesAfterARefusalAreAdded(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents, User: "admin"})
	do(t, server, "acl", "setuser", "default", "-config|set")
	j := newVerdictHarness(t, server, true)
	j.watch("emails")
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	do(t, server, "acl", "setuser", "default", "+config|set")
	j.Ensure("members", j.endpoint, Key{Name: "members", Class: verify.ClassSet})
	j.eventually("members", verify.Verdict{Reason: verify.ReasonSubscribed})
	j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
	j.Expect(flagsOf(t, server)).To(BeEquivalentTo("Klgs"))
}

func TestFlagsAreAddedOnRequestOnly(t *testing.T) {
	t.Parallel()
	t.Run("on request", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: "Ex"})
		j := newVerdictHarness(t, server, true)
		j.watch("emails")
		j.eventually("emails", verify.Verdict{Reason: verify.ReasonSubscribed})
		j.Expect(flagsOf(t, server)).To(BeEquivalentTo("KElgx"))
		j.Expect(server.Restart(t.Context())).To(Succeed())
		j.Eventually(func() verify.Flags { return flagsOf(t, server) }).WithTimeout(timeout).Should(BeEquivalentTo("KElgx"))
	})
	t.Run("not otherwise", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: "Ex"})
		j := newVerdictHarness(t, server, false)
		j.watch("emails")
		j.eventually("emails", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "KElgx"})
		j.Expect(flagsOf(t, server)).To(BeEquivalentTo("Ex"))
	})
	t.Run("if allowed", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
		do(t, server, "acl", "setuser", "default", "-config|set")
		j := newVerdictHarness(t, server, true)
		j.watch("emails")
		j.eventually("emails", verify.Verdict{Reason: verify.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	})
}
