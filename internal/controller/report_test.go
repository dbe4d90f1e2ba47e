// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/report"
)

// lateStatus is the longest time after a change of numbers until the status is written.
const lateStatus = 1250 * time.Millisecond

// If only numbers change, about one status per second is written, and always the last one.
func TestStatusIsWrittenOnceASecond(t *testing.T) {
	sj := scaledJob()
	sj.Spec.Threshold = 1000
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 1)
		w.Expect(w.applied).To(Equal(1))

		const passes, pause = 30, 100 * time.Millisecond
		for depth := range int64(passes) {
			time.Sleep(pause)
			w.reconcileAt(ctx, 2+depth)
		}
		w.Expect(w.applied - 1).To(BeNumerically("~", int(passes*pause/time.Second), 1))

		wait := w.reconcileAt(ctx, 99).RequeueAfter
		w.Expect(w.scaledJob(ctx).Status.QueueDepth).NotTo(HaveValue(Equal(int64(99))))
		w.Expect(wait).To(BeNumerically("<=", lateStatus), "the reconcile that writes it is scheduled")
		w.Expect(w.reconcileAfter(ctx, wait)).To(beResync())
		w.Expect(w.scaledJob(ctx).Status.QueueDepth).To(HaveValue(Equal(int64(99))))
	})
}

// A worker that reads an entry of a stream changes only how many are pending. The status shows that when it is written
// for another cause.
func TestPendingEntriesAloneCauseNoWrite(t *testing.T) {
	sj := scaledJob()
	sj.Spec.QueueName, sj.Spec.Threshold = "", 1000
	sj.Spec.Queues = []scaledjobv1.Queue{stream(emailQueue, "workers")}
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.queues.SetCount(emailQueue, queue.Count{Waiting: 3, InProgress: 1})
		w.reconcile(ctx)
		w.Expect(w.applied).To(Equal(1))
		pending := func() *int64 { return w.scaledJob(ctx).Status.Queues[0].PendingEntries }
		w.Expect(pending()).To(HaveValue(BeEquivalentTo(1)))

		w.queues.SetCount(emailQueue, queue.Count{Waiting: 2, InProgress: 2})
		w.Expect(w.reconcile(ctx)).To(beResync())
		w.reconcileAfter(ctx, 2*lateStatus)
		w.Expect(w.applied).To(Equal(1))
		w.queues.SetCount(emailQueue, queue.Count{Waiting: 3, InProgress: 2})
		w.reconcileAfter(ctx, w.reconcile(ctx).RequeueAfter)
		w.Expect(pending()).To(HaveValue(BeEquivalentTo(2)))
		w.Expect(w.scaledJob(ctx).Status.ClaimedJobs).To(BeNil(), "the strategy does not depend on it")
	})
}

// A condition keeps its transition time until it changes.
func TestConditionKeepsItsTime(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcile(ctx)
		turned := w.condition(ctx, scaledjobv1.ConditionReady).LastTransitionTime
		time.Sleep(time.Minute)
		w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 5 })
		w.reconcile(ctx)

		ready := w.condition(ctx, scaledjobv1.ConditionReady)
		w.Expect(ready.ObservedGeneration).To(Equal(int64(2)))
		w.Expect(ready.LastTransitionTime).To(Equal(turned))
	})
}

// After a restart only the stored status is known.
func TestStatusAfterARestart(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 25)
		w.reconcile(ctx)
		before := w.scaledJob(ctx)
		time.Sleep(jobs.StartTimeout / 2)

		w.r.memories = memories{}
		w.Expect(w.reconcile(ctx)).To(beResync())

		w.Expect(w.scaledJob(ctx)).To(Equal(before))
		w.Expect(w.applied).To(Equal(1))
		w.Expect(w.events.reasons).To(HaveLen(1), "known changes are not reported again")
	})
}

// The ScaledJob may be deleted or recreated before its status is written.
func TestStatusOfAScaledJobThatIsGone(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.onApply = func() error {
		return apierrors.NewNotFound(scaledjobv1.GroupVersion.WithResource("scaledjobs").GroupResource(), "emails")
	}
	w.Expect(w.reconcile(t.Context())).To(beResync())
}

// With a resourceVersion in the reference, repeated events would not be combined into a series.
func TestEventsRegardTheScaledJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	log := &eventLog{}
	sj := scaledJob()
	sj.ResourceVersion = "7"

	event := report.Event{Type: corev1.EventTypeNormal, Reason: "Reason", Action: "Act", Note: "100 % sure"}

	(&Reconciler{Recorder: log}).emit(sj, during("id-1", []report.Event{event}))

	g.Expect(log.regarding).To(Equal(&corev1.ObjectReference{
		APIVersion: "batch.miracle.dev/v1", Kind: "ScaledJob", Namespace: "mail", Name: "emails", UID: "uid-1",
	}))
	g.Expect(log.note).To(Equal("100 % sure"))
	g.Expect(log.annotations).To(Equal(map[string]string{"batch.miracle.dev/reconcile-id": "id-1"}))
}

// An event that is sent later names the reconcile in which it occurred first.
func TestNotedEventsNameTheReconcileInWhichTheyOccurred(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	mem := &memory{}
	for _, id := range []types.UID{"id-1", "id-2"} {
		(&target{mem: mem, reconcile: id}).note(report.CreatedJobs())
	}
	(&target{mem: mem, reconcile: "id-2"}).note(report.CreatedJobs(), report.ReplacedJobs())
	g.Expect(mem.pendingEvents).To(Equal([]occurrence{{report.CreatedJobs(), "id-1"}, {report.ReplacedJobs(), "id-2"}}))
}

// A queue near the limit may cross it many times per second. Each crossing changes a condition, but the status must not
// be written each time.
func TestStatusOfAQueueThatCrossesTheLimitIsWrittenOnceASecond(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 200)
		w.reconcile(ctx)
		const seconds = 10
		before := w.applied
		for i := range seconds * 40 { // notifications cause at most one reconcile every 25 ms
			w.reconcileAt(ctx, int64(200+i%2))
			time.Sleep(25 * time.Millisecond)
		}
		w.Expect(w.applied-before).To(BeNumerically("<=", 12*seconds/10), "status writes in %d s", seconds)
	})
}

// The permission to write statuses is lost. Jobs are created nevertheless, and the log says so, but not for each
// attempt.
func TestStatusThatMayNotBeWrittenIsLoggedOnceAMinute(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.r.denied.Interval = deniedInterval
		var lines []string
		ctx = ctrl.LoggerInto(ctx, funcr.New(func(_, line string) {
			if strings.Contains(line, "the operator may not write statuses") || strings.Contains(line, "will retry") {
				lines = append(lines, line)
			}
		}, funcr.Options{}))
		w.onApply = func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "scaledjobs/status"}, emails.Name, nil)
		}
		for depth := range int64(12) { // attempts are up to 30 seconds apart
			w.reconcileAt(ctx, 10*depth)
			time.Sleep(deniedInterval / 2)
		}
		w.Expect(w.names()).To(HaveLen(11))
		w.Expect(lines).To(HaveLen(6))
		w.Expect(lines).To(HaveEach(ContainSubstring("allow its ServiceAccount to patch scaledjobs/status")))
	})
}
