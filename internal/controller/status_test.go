// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/requests"
)

func TestStatusWait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		condition, more            bool
		written, changedAt, turned time.Time
		want                       time.Duration
	}{
		"numbers, long after the last write":  {written: ago(time.Hour), changedAt: now, want: 0},
		"numbers, a second after":             {written: ago(time.Second), changedAt: now, want: 0},
		"numbers, soon after":                 {written: ago(300 * time.Millisecond), changedAt: now, want: 700 * time.Millisecond},
		"numbers, never written":              {changedAt: now, want: 0},
		"a condition":                         {condition: true, written: ago(time.Millisecond), changedAt: now, want: 0},
		"a condition, as all the time":        {condition: true, changedAt: now, turned: ago(600 * time.Millisecond), want: 400 * time.Millisecond},
		"more to come":                        {more: true, written: ago(time.Hour), changedAt: now, want: time.Second},
		"more to come, for a while":           {more: true, written: ago(time.Hour), changedAt: ago(600 * time.Millisecond), want: 400 * time.Millisecond},
		"more to come, for long enough":       {more: true, written: ago(time.Hour), changedAt: ago(time.Minute), want: 0},
		"a condition, and more to come":       {condition: true, more: true, written: ago(time.Hour), changedAt: now, want: time.Second},
		"numbers, waiting for longer than it": {written: ago(300 * time.Millisecond), changedAt: ago(time.Minute), want: 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &scaledjobv1.ScaledJobStatus{ActiveJobs: 1}
			after := &scaledjobv1.ScaledJobStatus{ActiveJobs: 2}
			if c.condition {
				after.Conditions = []metav1.Condition{{Type: "Ready"}}
			}
			mem := &memory{writtenAt: c.written, changedAt: c.changedAt, writes: rate.NewLimiter(rate.Every(time.Second), 1)}
			mem.writes.AllowN(c.turned, 1)
			NewWithT(t).Expect(statusWait(before, after, mem, c.more, now)).To(Equal(c.want))
		})
	}
}

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
		w.Expect(w.r.memories.of(sj).changedAt).To(BeZero(), "the next change gets its full second")
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
	w.Expect(w.reconcile(t.Context()).RequeueAfter).To(BeNumerically("<=", requests.RetryDelay(1)))
	w.Expect(w.r.memories.of(scaledJob()).written).To(BeNil())
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
