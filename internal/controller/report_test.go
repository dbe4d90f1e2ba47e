// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/retry"
)

// While only numbers change, at most one status a second is written, and the last one always.
func TestStatusIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 1)
		w.reconcile(t.Context())
		w.Expect(w.applied).To(Equal(1))

		const passes, pause = 30, 100 * time.Millisecond
		for depth := range int64(passes) {
			time.Sleep(pause)
			w.queues.SetDepth(emailQueue, 2+depth%8)
			w.reconcile(t.Context())
		}
		w.Expect(w.applied).To(Equal(1 + int(passes*pause/time.Second)))

		w.queues.SetDepth(emailQueue, 9)
		wait := w.reconcile(t.Context()).RequeueAfter
		w.Expect(w.scaledJob(t.Context()).Status.QueueDepth).NotTo(HaveValue(Equal(int64(9))))
		w.Expect(wait).To(BeNumerically("<=", time.Second), "the pass that writes it must come")
		time.Sleep(wait)
		w.Expect(w.reconcile(t.Context())).To(beResync())
		w.Expect(w.scaledJob(t.Context()).Status.QueueDepth).To(HaveValue(Equal(int64(9))))
	})
}

// What changed and changed back before it was written need not be written.
func TestStatusThatChangedBackIsNotWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sj := scaledJob()
		sj.Spec.ActivationThreshold = 10
		w := newWorld(t, sj)
		w.reconcile(t.Context())

		w.queues.SetDepth(emailQueue, 5)
		w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", time.Second))
		w.queues.SetDepth(emailQueue, 0)
		w.Expect(w.reconcile(t.Context())).To(beResync())

		w.Expect(w.applied).To(Equal(1))
	})
}

// A condition keeps the time at which it turned for as long as it does not.
func TestConditionKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.reconcile(t.Context())
		turned := w.condition(t.Context(), scaledjobv1.ConditionReady).LastTransitionTime
		time.Sleep(time.Minute)
		w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 5 })
		w.reconcile(t.Context())

		ready := w.condition(t.Context(), scaledjobv1.ConditionReady)
		w.Expect(ready.ObservedGeneration).To(Equal(int64(2)))
		w.Expect(ready.LastTransitionTime).To(Equal(turned))
	})
}

// After a restart nothing is known but the status that is stored.
func TestStatusAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 25)
		w.reconcile(t.Context())
		w.reconcile(t.Context())
		before := w.scaledJob(t.Context())
		time.Sleep(time.Hour)

		w.r.memories = memories{}
		w.Expect(w.reconcile(t.Context())).To(beResync())

		w.Expect(w.scaledJob(t.Context())).To(Equal(before))
		w.Expect(w.applied).To(Equal(1))
		w.Expect(w.events.reasons).To(HaveLen(1), "what it was told already is not told again")
	})
}

// The ScaledJob may be gone, or another of its name there, by the time its status is written.
func TestStatusOfAScaledJobThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.onApply = func() error {
		return apierrors.NewNotFound(scaledjobv1.GroupVersion.WithResource("scaledjobs").GroupResource(), "emails")
	}
	w.Expect(w.reconcile(t.Context())).To(beResync())
}

// The API server answers so to an apply that lost too many races. The status is not written then, and must be tried again.
func TestStatusInConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.onApply = func() error {
		return apierrors.NewConflict(scaledjobv1.GroupVersion.WithResource("scaledjobs").GroupResource(), "emails", errAway)
	}
	w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", retry.APIServer.After(1)))
	w.Expect(w.scaledJob(t.Context()).Status).To(BeZero())
}

// A resourceVersion in the reference would make each event one of its own, instead of one that happened again.
func TestEventsRegardTheScaledJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	log := &eventLog{}
	sj := scaledJob()
	sj.ResourceVersion = "7"

	(&Reconciler{Recorder: log}).emit(sj, report.Event{Type: corev1.EventTypeNormal, Reason: "Reason", Action: "Act", Note: "100 % sure"})

	g.Expect(log.regarding).To(Equal(&corev1.ObjectReference{
		APIVersion: "batch.miracle.dev/v1", Kind: "ScaledJob", Namespace: "mail", Name: "emails", UID: "uid-1",
	}))
	g.Expect(log.note).To(Equal("100 % sure"))
}

// A queue in balance near the limit crosses it many times a second. That turns a condition each time, but the status must not be written
// each time.
func TestStatusOfAQueueThatCrossesTheLimitIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.queues.SetDepth(emailQueue, 200)
		w.reconcile(t.Context())
		w.reconcile(t.Context())
		const seconds = 10
		before := w.applied
		for i := range seconds * 40 { // growth wakes at most every 25 ms
			w.queues.SetDepth(emailQueue, int64(200+i%2))
			w.reconcile(t.Context())
			time.Sleep(25 * time.Millisecond)
		}
		w.Expect(w.applied-before).To(BeNumerically("<=", 12*seconds/10), "status writes in %d s", seconds)
	})
}
