// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/wakeup"
	"miracle.dev/scaledjob-operator/test/redistest"
)

// judging is a watcher that runs, and what each id was told when it was last woken. Nothing
// else asks, so that a verdict which wakes nobody is never seen.
type judging struct {
	*harness
	told sync.Map // of proof.Verdict, by id
}

func newJudging(t *testing.T, server *redistest.Server, configure bool) *judging {
	t.Helper()
	j := &judging{}
	j.harness = newHarness(t, server.Addr(), func(w *Watcher[string]) {
		w.options.Configure = configure
		w.options.Deliver = func(_ context.Context, woken wakeup.Wake[string]) { j.told.Store(woken.ID, w.State(woken.ID).Verdict) }
	})
	return j
}

// watch watches keys, each by an id of the same name.
func (j *judging) watch(keys ...string) {
	for _, key := range keys {
		j.Ensure(key, j.endpoint, list(key))
	}
}

// eventually waits until the id was told the verdict.
func (j *judging) eventually(id string, want proof.Verdict) {
	j.t.Helper()
	j.Eventually(func() any {
		told, _ := j.told.Load(id)
		return told
	}).WithTimeout(timeout).Should(Equal(want), id)
}

func TestTheSettingOfTheServerProves(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newJudging(t, server, false)
	j.Expect(j.State("emails")).To(Equal(State{}), "nobody watches")
	j.watch("emails", "other")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
	j.Expect(j.State("emails").Watchers).To(Equal(2))
	j.Expect(j.State("emails").LastEvent).To(BeZero())
	do(t, server, "rpush", "emails", 1)
	j.Eventually(func() time.Time { return j.State("emails").LastEvent }).WithTimeout(timeout).ShouldNot(BeZero())
}

func TestStateTellsWhenTheKeyShrankAndTheSubscriptionBegan(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
	begun := j.State("emails").Since
	j.Expect(begun).NotTo(BeZero())
	j.Expect(j.State("emails").LastShrink).To(BeZero())

	do(t, server, "rpush", "emails", 1, 2)
	do(t, server, "lpop", "emails")
	j.Eventually(func() time.Time { return j.State("emails").LastShrink }).WithTimeout(timeout).ShouldNot(BeZero())
	j.Expect(j.State("emails").Since).To(Equal(begun))

	do(t, server, "client", "kill", "type", "pubsub")
	j.Eventually(func() time.Time { return j.State("emails").Since }).WithTimeout(timeout).Should(BeTemporally(">", begun))
}

func TestFlagsChangedAtRunTimeAreFound(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
	do(t, server, "config", "set", "notify-keyspace-events", "xE")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "KElgx"})
	do(t, server, "config", "set", "notify-keyspace-events", "KElx")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
}

func TestAnEventProvesWhereTheSettingIsSecret(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "-config")
	j := newJudging(t, server, false)
	j.watch("emails", "other")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonUnverified})

	do(t, server, "set", "unrelated", 1)
	do(t, server, "lpush", "emails", 1)
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
	j.eventually("other", proof.Verdict{Reason: proof.ReasonSubscribed}) // One event proves it for all keys.
}

// Without the right to ask and without events, only the depths tell.
func TestSilentGrowthDisproves(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	do(t, server, "acl", "setuser", "default", "-config")
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonUnverified})

	var missed atomic.Int32
	j.Eventually(func() proof.Verdict {
		do(t, server, "lpush", "emails", 1)
		began := time.Now()
		depth, err := server.Client().LLen(t.Context(), "emails").Result()
		j.Expect(err).NotTo(HaveOccurred())
		if j.Observed("emails", "emails", depth, began) {
			missed.Add(1)
		}
		return j.State("emails").Verdict
	}).WithTimeout(timeout).Should(Equal(proof.Verdict{Reason: proof.ReasonNoEventsObserved}))
	j.Expect(missed.Load()).To(BeNumerically(">=", 1))
	j.Expect(j.Observed("emails", "no such key", 1, time.Now())).To(BeFalse())
	j.Expect(j.Observed("no such id", "emails", 1, time.Now())).To(BeFalse())
}

// A server that says itself that it publishes nothing is not blamed for that, and is
// believed as soon as it says otherwise.
func TestSilenceThatIsConfiguredIsNoMiss(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg"})
	depth := int64(0)
	j.Consistently(func() bool {
		depth++
		return j.Observed("emails", "emails", depth, time.Now())
	}).WithTimeout(3 * time.Second).WithPolling(100 * time.Millisecond).Should(BeFalse())
	do(t, server, "config", "set", "notify-keyspace-events", "Klg")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
}

func TestADeniedChannelAndAServerThatIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "resetchannels", "&__keyspace@0__:emails")
	j := newJudging(t, server, false)
	j.watch("emails")
	j.watch("secret")
	j.eventually("secret", proof.Verdict{Reason: proof.ReasonPermissionDenied})
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})

	j.Expect(server.Kill()).To(Succeed())
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonUnreachable})
	j.Expect(server.Restart(t.Context())).To(Succeed())
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
}

// A gap that is over soon changes nothing that anybody is told.
func TestAShortGapIsNotTold(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
	do(t, server, "client", "kill", "type", "pubsub")
	j.Eventually(func() []string { return subscriptions(t, server) }).WithTimeout(timeout).Should(BeEmpty())
	j.Expect(j.State("emails").Verdict).To(Equal(proof.Verdict{Reason: proof.ReasonSubscribed}))
	j.Eventually(func() []string { return subscriptions(t, server) }).WithTimeout(timeout).ShouldNot(BeEmpty())
	j.Expect(j.State("emails").Verdict).To(Equal(proof.Verdict{Reason: proof.ReasonSubscribed}))
}

func TestFlagsAreAddedOnRequestOnly(t *testing.T) {
	t.Parallel()
	flagsOf := func(server *redistest.Server) string {
		answer, err := server.Client().ConfigGet(t.Context(), "notify-keyspace-events").Result()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return answer["notify-keyspace-events"]
	}
	t.Run("on request", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: "Ex"})
		j := newJudging(t, server, true)
		j.watch("emails")
		j.eventually("emails", proof.Verdict{Reason: proof.ReasonSubscribed})
		j.Expect(proof.Flags(flagsOf(server)).Known()).To(BeEquivalentTo("KElgx"))
		j.Expect(server.Restart(t.Context())).To(Succeed())
		j.Eventually(func() proof.Flags { return proof.Flags(flagsOf(server)).Known() }).WithTimeout(timeout).Should(BeEquivalentTo("KElgx"))
	})
	t.Run("not otherwise", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: "Ex"})
		j := newJudging(t, server, false)
		j.watch("emails")
		j.eventually("emails", proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "KElgx"})
		j.Expect(proof.Flags(flagsOf(server)).Known()).To(BeEquivalentTo("Ex"))
	})
	t.Run("if allowed", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
		do(t, server, "acl", "setuser", "default", "-config|set")
		j := newJudging(t, server, true)
		j.watch("emails")
		j.eventually("emails", proof.Verdict{Reason: proof.ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	})
}
