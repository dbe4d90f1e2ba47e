// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// A place that becomes free wakes each ScaledJob of the namespace that a quota has refused, one after the other.
func TestFreePlacesOfAQuotaAreOfferedInTurns(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		var all memories
		refused := created{refusal: errForbidden}
		var waiting []*target
		for _, name := range []string{"a", "b", "c"} {
			waits := targetOf(&all, "mail", name)
			waits.mem.answer.By = admission.ByQuota
			all.noteQuota(waits, plan{}, refused)
			waiting = append(waiting, waits)
		}
		other := targetOf(&all, "images", "a")
		other.mem.answer.By = admission.ByWebhook
		all.noteQuota(other, plan{}, refused)

		g.Expect(all.freed("images")).To(BeEmpty(), "a webhook does not wait for a free place")
		wakes := all.freed("mail")
		delays := make([]time.Duration, 0, len(wakes))
		for _, delay := range wakes {
			delays = append(delays, delay)
		}
		g.Expect(delays).To(ConsistOf(0*time.Second, quotaSpacing, 2*quotaSpacing))
		g.Expect(all.freed("mail")).To(BeEmpty(), "each has its turn already")
		for _, waits := range waiting {
			has, _, next := all.takeTurn(waits, time.Now().Add(-time.Millisecond))
			g.Expect(has).To(BeFalse(), "another event came earlier")
			g.Expect(next).To(BeTemporally("~", time.Now(), 2*quotaSpacing), "so that the turn is not lost")
		}

		time.Sleep(2 * quotaSpacing)
		for _, waits := range waiting {
			has, first, _ := all.takeTurn(waits, time.Now())
			g.Expect(has && first).To(BeTrue())
			has, _, next := all.takeTurn(waits, time.Now())
			g.Expect(has).To(BeFalse(), "a turn is for one attempt")
			g.Expect(next).To(BeZero())
		}
		g.Expect(all.freed("mail")).To(HaveLen(3))

		all.noteQuota(waiting[0], plan{}, created{jobs: 1})
		all.noteQuota(waiting[1], plan{known: true}, created{})
		all.noteQuota(waiting[2], plan{}, refused)
		g.Expect(all.quotas["mail"].turns).To(HaveLen(1), "it keeps its turn")
		waiting[2].mem.answer.By = admission.ByWebhook
		all.noteQuota(waiting[2], plan{}, refused)
		g.Expect(all.quotas).To(BeEmpty(), "none waits for a quota any longer")

		waiting[0].mem.answer.By = admission.ByQuota
		all.noteQuota(waiting[0], plan{}, refused)
		all.drop(waiting[0].key())
		g.Expect(all.quotas).To(BeEmpty())
	})
}

// A quota may notice later than the operator that a Job was deleted, so its next refusal is not final. If others delete
// Jobs all the time, later refusals are, so that the ScaledJob deletes its own finished Jobs for the quota.
func TestADeletedJobOfAnotherScaledJobMakesRoom(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 10)
		w.onCreate = refuse(errForbidden)
		w.reconcile(ctx)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(1))

		w.Expect(w.r.memories.freed(emails.Namespace)).To(HaveKeyWithValue(emails, 0*time.Second))
		w.Expect(w.reconcileFails(ctx)).To(MatchError(errForbidden), "it is retried with backoff")
		time.Sleep(quotaLag)
		w.r.memories.freed(emails.Namespace)
		w.reconcile(ctx)
		w.Expect(w.limited(ctx)).To(Equal("CreateRefused"))

		time.Sleep(quotaLag)
		w.r.memories.freed(emails.Namespace)
		w.onCreate = send
		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(1))
		w.Expect(w.r.memories.quotas).To(BeEmpty())
	})
}

// A turn that has not come yet is not lost if the ScaledJob is reconciled before it.
func TestTheTurnOfAQuotaIsNotLost(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 10)
		w.onCreate = refuse(errForbidden)
		w.reconcile(ctx)
		w.r.memories.quotas[emails.Namespace].next = time.Now().Add(3 * time.Second)
		w.r.memories.freed(emails.Namespace)
		w.Expect(w.reconcile(ctx).RequeueAfter).To(BeNumerically("<=", 3*time.Second))
		w.Expect(w.names()).To(HaveLen(1))
		time.Sleep(3 * time.Second)
		w.onCreate = send
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(2))
	})
}

// A quota that still counts a deleted Job refuses also one whose refusal is final. The place is offered a few more
// times before the pause ends, which may be in minutes.
func TestAPlaceThatAQuotaFreesLateIsOfferedAgain(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 10)
		w.onCreate = refuse(errForbidden)
		w.reconcile(ctx)
		w.r.memories.freed(emails.Namespace)
		_ = w.reconcileFails(ctx)
		time.Sleep(quotaLag + time.Second)
		w.r.memories.freed(emails.Namespace)

		began, before := time.Now(), len(w.names())
		for time.Since(began) < quotaLag {
			next := w.reconcile(ctx).RequeueAfter
			w.Expect(w.limited(ctx)).To(Equal("CreateRefused"))
			w.Expect(next).To(BeNumerically("<=", quotaAgain))
			time.Sleep(next)
		}
		w.Expect(len(w.names()) - before).To(BeNumerically("~", quotaLag/quotaAgain, 1))
		w.onCreate = send
		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(1))
		w.Expect(w.r.memories.quotas).To(BeEmpty())
	})
}
