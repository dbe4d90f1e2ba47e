// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// message returns the message of ScalingLimited.
func (w *fakeEnv) message(ctx context.Context) string {
	return w.condition(ctx, scaledjobv1.ConditionScalingLimited).Message
}

func TestJobsThatDoNotStartAreReported(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 25)
		w.pods(ctx, w.names()[0], 1, 0)
		result := w.reconcileAfter(ctx, jobs.StartTimeout-time.Second)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", 2*time.Second))

		w.reconcileAfter(ctx, 2*time.Second)
		w.Expect(w.limited(ctx)).To(Equal("JobsNotStarting"))
		w.Expect(w.message(ctx)).To(And(ContainSubstring("longer: 3 of 3."), ContainSubstring("Without any Pod: 2."),
			ContainSubstring("kubectl describe jobs --namespace=mail --selector=batch.miracle.dev/scaledjob=emails"), ContainSubstring("With a Pod that is not ready: 1.")))

		w.pods(ctx, w.names()[0], 1, 1)
		w.reconcileAfter(ctx, 2*time.Second)
		w.Expect(w.message(ctx)).To(ContainSubstring("3 of 3"), "numbers change once a minute")
		w.reconcileAfter(ctx, refreshInterval)
		w.Expect(w.message(ctx)).To(ContainSubstring("2 of 3."))

		w.setReady(ctx, 1)
		w.reconcileAfter(ctx, 2*time.Second)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(w.events.reasons).To(Equal([]string{"CreatedJobs", "JobsNotStarting", "CreationResumed"}))
	})
}

// Jobs that keep no message waiting are nobody's concern.
func TestJobsThatDoNotStartForNoMessage(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 25)
		w.queues.SetDepth(emailQueue, 0)
		w.reconcileAfter(ctx, time.Hour)
		w.awaitNumbers(ctx)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(w.message(ctx)).To(HavePrefix("No message is outstanding."))
	})
}

func TestJobsThatDoNotEndAreReported(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 10)
		w.setReady(ctx, 1)
		w.reconcile(ctx)
		w.setReady(ctx, 0)
		w.reconcile(ctx)
		w.reconcileAfter(ctx, 2*jobs.StartTimeout)
		w.awaitNumbers(ctx)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(w.message(ctx)).To(And(ContainSubstring("activeDeadlineSeconds"), ContainSubstring("Accurate")))

		w.setReady(ctx, 1)
		w.reconcile(ctx)
		w.awaitNumbers(ctx)
		w.Expect(w.message(ctx)).To(Equal("No Job is held back."))

		w.reconcileAfter(ctx, stillAfter)
		w.awaitNumbers(ctx)
		w.Expect(w.message(ctx)).To(ContainSubstring("no message has left the queue"))
		w.reconcileAt(ctx, 9)
		w.awaitNumbers(ctx)
		w.Expect(w.message(ctx)).To(Equal("No Job is held back."))
	})
}

// The history limits keep Jobs that take all of a quota: one is deleted for each new Job.
func TestHistoryGivesWayToAQuota(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 30)
		for _, name := range w.names() {
			w.finish(ctx, name, batchv1.JobComplete)
			time.Sleep(lateStatus)
		}
		w.reconcileAt(ctx, 0)
		w.Expect(w.jobs(ctx)).To(HaveLen(3))
		oldest := w.names()[0]

		w.onCreate = refuse(errForbidden)
		w.reconcileAt(ctx, 1)
		for range 3 { // The quota still counts the deleted Job.
			w.Expect(w.jobs(ctx)).To(HaveLen(2))
			w.Expect(w.reconcileFails(ctx)).To(MatchError(jobcontrol.ErrRejected), "it is tried again soon")
		}
		for _, job := range w.jobs(ctx) {
			w.Expect(job.Name).NotTo(Equal(oldest))
		}
		w.Expect(w.limited(ctx)).To(Equal("CreateRefused"))
		time.Sleep(2 * time.Second)
		w.onCreate = send
		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(3))
		w.reconcileAfter(ctx, 2*time.Second)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(w.events.reasons).To(ContainElement("DeletedHistory"))
	})
}

// Another quota is not helped by deleting Jobs.
func TestHistoryStaysForAnotherRefusal(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.reconcileAt(t.Context(), 10)
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)
	w.onCreate = refuse(invalid())
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(HaveLen(1))
	w.Expect(w.limited(t.Context())).To(Equal("CreateRefused"))
}

func TestWhatTheUserLimitsIsReported(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]struct {
		set    func(*scaledjobv1.ScaledJobSpec)
		reason string
	}{
		"spec.suspend":             {func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true }, "Suspended"},
		"spec.activationThreshold": {func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = 10 }, "NotLimited"},
	} {
		sj := scaledJob()
		c.set(&sj.Spec)
		w := newFakeEnv(t, sj)
		w.reconcileAt(t.Context(), 10)
		w.Expect(w.limited(t.Context())).To(Equal(c.reason))
		w.Expect(w.message(t.Context())).To(ContainSubstring(field))
	}
}
