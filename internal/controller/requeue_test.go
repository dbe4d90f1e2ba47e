// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestResyncInterval(t *testing.T) {
	type row struct {
		known    verify.Reason
		watchers int
		polling  int32 // seconds
		disabled bool
		want     time.Duration
	}
	bubble.Each(t, map[string]row{
		"proven":                       {known: verify.ReasonSubscribed, polling: 30, watchers: 1, want: 30 * time.Second},
		"unproven":                     {known: verify.ReasonUnverified, polling: 30, watchers: 1, want: 5 * time.Second},
		"undecided":                    {polling: 30, watchers: 1, want: 5 * time.Second},
		"not configured":               {known: verify.ReasonNotConfigured, polling: 30, watchers: 1, want: 5 * time.Second},
		"a shorter interval is wanted": {known: verify.ReasonUnverified, polling: 2, watchers: 1, want: 2 * time.Second},
		"many share the server":        {known: verify.ReasonUnverified, polling: 30, watchers: 2000, want: 10 * time.Second},
		"very many":                    {known: verify.ReasonUnverified, polling: 30, watchers: 20_000, want: 30 * time.Second},
		"disabled":                     {disabled: true, polling: 30, want: 30 * time.Second},
	}, func(_ *testing.T, g Gomega, c row) {
		sj := scaledJob()
		sj.Spec.PollingIntervalSeconds = c.polling
		if c.disabled {
			sj.Spec.Notifications = scaledjobv1.NotificationsDisabled
		}
		known := keyspace.State{Verdict: verify.Verdict{Reason: c.known}, Watchers: c.watchers}
		g.Expect(resyncInterval(sj, known, 5*time.Second)).To(Equal(c.want))
		known.Tracking = verify.TrackedUnproven
		g.Expect(resyncInterval(sj, known, 5*time.Second)).To(Equal(c.want), "the server may report nothing")
		known.Tracking = verify.Tracked
		g.Expect(resyncInterval(sj, known, 5*time.Second)).To(Equal(time.Duration(c.polling) * time.Second))
		g.Expect(resyncInterval(sj, known, 0)).To(Equal(time.Duration(c.polling)*time.Second),
			"there is no fallback")
	})
}

// A pause that has ended while the reconcile was under way must not leave the Jobs that it held back to the resync.
func TestAPauseThatEndsDuringTheReconcileIsNotForgotten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	refused := time.Unix(1000, 0)
	mem := &memory{}
	mem.refusals.Refused(refused)
	during, after := refused.Add(scaling.FirstPause-time.Second), refused.Add(scaling.FirstPause+time.Second)
	g.Expect(untilChore(mem, true, 0, during)).To(Equal(time.Second))
	g.Expect(untilChore(mem, true, 0, after)).To(Equal(moreRetry))
	g.Expect(untilChore(mem, false, 0, after)).To(Equal(never), "the Jobs were created")
}

// What is known about the notifications may change by time alone. Then the status must say so, and the source of events
// may have to change.
func TestAReconcileComesWhenTheStateOfTheNotificationsMayChange(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcile(ctx)
		for after, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, -time.Second: dueSpacing} {
			w.watcher.state.ValidUntil = time.Now().Add(after)
			w.Expect(w.reconcile(ctx)).To(beRequeue(want, enqueue.PriorityNormal))
		}
		w.watcher.state.ValidUntil = time.Now().Add(time.Hour)
		w.Expect(w.reconcile(ctx)).To(HaveField("Priority", HaveValue(Equal(enqueue.PriorityResync))))
	})
}

// Retries of a busy server take turns if many share it.
func TestRetriesOfABusyServerTakeTurns(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.queues.SetError(emailQueue, failure.ErrBusy)
	for watchers, want := range map[int]time.Duration{1: busyRetry, 1000: 5 * time.Second, 10_000: unreadableRetry} {
		w.watcher.state.Watchers = watchers
		result := w.reconcile(t.Context())
		w.Expect(result.RequeueAfter).To(BeNumerically("~", want, want/5), "%d ScaledJobs", watchers)
		w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityResync)))
	}
}

// A notification reports messages once. The read that it causes is not made while the server is busy, so the next one
// follows soon, however many share the server.
func TestAGrownQueueOfABusyServerIsReadSoon(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetError(emailQueue, failure.ErrBusy)
		w.watcher.state.Watchers = 10_000
		grown := time.Now()
		w.watcher.notified = grown
		reads := 0
		for ; time.Since(grown) < 5*time.Second; reads++ {
			result := w.reconcile(ctx)
			after := max(grownRetry, time.Since(grown)/4)
			w.Expect(result.RequeueAfter).To(BeNumerically("~", after, after/5))
			w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityNormal)))
			time.Sleep(result.RequeueAfter)
		}
		w.Expect(reads).To(BeNumerically("<", 25))
		w.Expect(w.reconcileAfter(ctx, time.Minute).RequeueAfter).To(BeNumerically("~", unreadableRetry, unreadableRetry/5), "as without growth")
	})
}

// Resyncs that come together cost less CPU time than as many that come one by one.
func TestResyncsComeTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const interval = 30 * time.Second
	began, moments := time.Now(), map[time.Time]int{}
	for i := range 10_000 {
		now := began.Add(time.Duration(i) * 3 * time.Millisecond)
		after := untilResync(interval, now)
		g.Expect(after).To(BeNumerically("~", interval, interval/10))
		moments[now.Round(0).Add(after)]++
	}
	g.Expect(len(moments)).To(BeNumerically("<=", 2*resyncSlots))
}
