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

	"miracle.dev/scaledjob-operator/test/redistest"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	long, short := now.Add(-patience), now.Add(-patience+time.Millisecond)
	subscribed := standing{present: true, since: short}
	silent := setting{asked: true, readable: true, flags: "xE"}
	for name, c := range map[string]struct {
		channel          standing
		server           setting
		heard, disproved bool
		want             Verdict
	}{
		"not subscribed yet":          {channel: standing{since: short}, want: Verdict{}},
		"away for a moment":           {channel: standing{since: short}, server: silent, want: Verdict{}},
		"away":                        {channel: standing{since: long}, heard: true, want: Verdict{Reason: ReasonUnreachable}},
		"forbidden":                   {channel: standing{since: long, forbidden: true}, want: Verdict{Reason: ReasonPermissionDenied}},
		"not asked yet":               {channel: subscribed, want: Verdict{}},
		"not asked for long":          {channel: standing{present: true, since: long}, want: Verdict{Reason: ReasonUnverified}},
		"may not ask":                 {channel: subscribed, server: setting{asked: true}, want: Verdict{Reason: ReasonUnverified}},
		"may not ask, but heard":      {channel: subscribed, server: setting{asked: true}, heard: true, want: Verdict{Reason: ReasonSubscribed}},
		"configured":                  {channel: subscribed, server: setting{asked: true, readable: true, flags: "Kl"}, want: Verdict{Reason: ReasonSubscribed}},
		"not configured":              {channel: subscribed, server: silent, want: Verdict{Reason: ReasonNotConfigured, Flags: "KElgx"}},
		"switched off after an event": {channel: subscribed, server: silent, heard: true, want: Verdict{Reason: ReasonNotConfigured, Flags: "KElgx"}},
		"may not configure": {
			channel: subscribed, server: setting{asked: true, readable: true, refused: true},
			want: Verdict{Reason: ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true},
		},
		"disproved though configured": {
			channel: subscribed, server: setting{asked: true, readable: true, flags: "KA"}, heard: true, disproved: true,
			want: Verdict{Reason: ReasonNoEventsObserved},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(judge(c.channel, c.server, c.heard, c.disproved, now)).To(Equal(c.want))
		})
	}
}

// judging is a watcher that runs, and what each id was told when it was last woken. Nothing
// else asks, so that a verdict which wakes nobody is never seen.
type judging struct {
	*harness
	told sync.Map // of Verdict, by id
}

func newJudging(t *testing.T, server *redistest.Server, configure bool) *judging {
	t.Helper()
	j := &judging{}
	j.harness = newHarness(t, server.Addr(), func(w *Watcher[string]) {
		w.options.Configure = configure
		w.options.Deliver = func(_ context.Context, wake Wake[string]) { j.told.Store(wake.ID, w.State(wake.ID).Verdict) }
	})
	return j
}

// watch watches keys, each by an id of the same name.
func (j *judging) watch(keys ...string) {
	for _, key := range keys {
		j.Ensure(key, j.endpoint, key)
	}
}

// eventually waits until the id was told the verdict.
func (j *judging) eventually(id string, want Verdict) {
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
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})
	j.Expect(j.State("emails").Watchers).To(Equal(2))
	j.Expect(j.State("emails").LastEvent).To(BeZero())
	do(t, server, "rpush", "emails", 1)
	j.Eventually(func() time.Time { return j.State("emails").LastEvent }).WithTimeout(timeout).ShouldNot(BeZero())
}

func TestFlagsChangedAtRunTimeAreFound(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})
	do(t, server, "config", "set", "notify-keyspace-events", "xE")
	j.eventually("emails", Verdict{Reason: ReasonNotConfigured, Flags: "KElgx"})
	do(t, server, "config", "set", "notify-keyspace-events", "KElx")
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})
}

func TestAnEventProvesWhereTheSettingIsSecret(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "-config")
	j := newJudging(t, server, false)
	j.watch("emails", "other")
	j.eventually("emails", Verdict{Reason: ReasonUnverified})

	do(t, server, "set", "unrelated", 1)
	do(t, server, "lpush", "emails", 1)
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})
	j.eventually("other", Verdict{Reason: ReasonSubscribed}) // One event proves it for all keys.
}

// Without the right to ask and without events, only the depths tell.
func TestSilentGrowthDisproves(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
	do(t, server, "acl", "setuser", "default", "-config")
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", Verdict{Reason: ReasonUnverified})

	var missed atomic.Int32
	j.Eventually(func() Verdict {
		do(t, server, "lpush", "emails", 1)
		began := time.Now()
		depth, err := server.Client().LLen(t.Context(), "emails").Result()
		j.Expect(err).NotTo(HaveOccurred())
		if j.Observed("emails", "emails", depth, began) {
			missed.Add(1)
		}
		return j.State("emails").Verdict
	}).WithTimeout(timeout).Should(Equal(Verdict{Reason: ReasonNoEventsObserved}))
	j.Expect(missed.Load()).To(BeNumerically(">=", 1))
	j.Expect(j.Observed("emails", "no such key", 1, time.Now())).To(BeFalse())
	j.Expect(j.Observed("no such id", "emails", 1, time.Now())).To(BeFalse())
}

func TestADeniedChannelAndAServerThatIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	do(t, server, "acl", "setuser", "default", "resetchannels", "&__keyspace@0__:emails")
	j := newJudging(t, server, false)
	j.watch("emails")
	j.watch("secret")
	j.eventually("secret", Verdict{Reason: ReasonPermissionDenied})
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})

	j.Expect(server.Kill()).To(Succeed())
	j.eventually("emails", Verdict{Reason: ReasonUnreachable})
	j.Expect(server.Restart(t.Context())).To(Succeed())
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})
}

// A gap that is over soon changes nothing that anybody is told.
func TestAShortGapIsNotTold(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	j := newJudging(t, server, false)
	j.watch("emails")
	j.eventually("emails", Verdict{Reason: ReasonSubscribed})
	for range 3 {
		do(t, server, "client", "kill", "type", "pubsub")
		j.Eventually(func() []string { return subscriptions(t, server) }).WithTimeout(timeout).Should(BeEmpty())
		j.Expect(j.State("emails").Verdict).To(Equal(Verdict{Reason: ReasonSubscribed}))
		j.Eventually(func() []string { return subscriptions(t, server) }).WithTimeout(timeout).ShouldNot(BeEmpty())
		j.Expect(j.State("emails").Verdict).To(Equal(Verdict{Reason: ReasonSubscribed}))
	}
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
		j.eventually("emails", Verdict{Reason: ReasonSubscribed})
		j.Expect(flags(flagsOf(server)).known()).To(BeEquivalentTo("KElgx"))
		j.Expect(server.Restart(t.Context())).To(Succeed())
		j.Eventually(func() flags { return flags(flagsOf(server)).known() }).WithTimeout(timeout).Should(BeEquivalentTo("KElgx"))
	})
	t.Run("not otherwise", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: "Ex"})
		j := newJudging(t, server, false)
		j.watch("emails")
		j.eventually("emails", Verdict{Reason: ReasonNotConfigured, Flags: "KElgx"})
		j.Expect(flags(flagsOf(server)).known()).To(BeEquivalentTo("Ex"))
	})
	t.Run("if allowed", func(t *testing.T) {
		t.Parallel()
		server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
		do(t, server, "acl", "setuser", "default", "-config|set")
		j := newJudging(t, server, true)
		j.watch("emails")
		j.eventually("emails", Verdict{Reason: ReasonNotConfigured, Flags: "Klg", ConfigureRefused: true})
	})
}
