// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// message returns the message of ScalingLimited.
func (w *fakeEnv) message(t *testing.T) string {
	t.Helper()
	return w.condition(t.Context(), scaledjobv1.ConditionScalingLimited).Message
}

func TestJobsThatDoNotStartAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeEnv(t, scaledJob())
		w.queues.SetDepth(emailQueue, 25)
		w.reconcile(t.Context())
		w.pods(t.Context(), w.names()[0], 1, 0)
		time.Sleep(jobs.StartTimeout - time.Second)
		result := w.reconcile(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("NotLimited"))
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", 2*time.Second))

		time.Sleep(2 * time.Second)
		w.reconcile(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("JobsNotStarting"))
		w.Expect(w.message(t)).To(And(ContainSubstring("longer: 3 of 3."), ContainSubstring("Without any Pod: 2."),
			ContainSubstring("kubectl describe jobs --namespace=mail --selector=batch.miracle.dev/scaledjob=emails"), ContainSubstring("With a Pod that is not ready: 1.")))

		w.pods(t.Context(), w.names()[0], 1, 1)
		time.Sleep(2 * time.Second)
		w.reconcile(t.Context())
		w.Expect(w.message(t)).To(ContainSubstring("3 of 3"), "numbers change once a minute")
		time.Sleep(refreshInterval)
		w.reconcile(t.Context())
		w.Expect(w.message(t)).To(ContainSubstring("2 of 3."))

		w.setReady(t, 1)
		time.Sleep(2 * time.Second)
		w.reconcile(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("NotLimited"))
		w.Expect(w.events.reasons).To(Equal([]string{"CreatedJobs", "JobsNotStarting", "CreationResumed"}))
	})
}

// Jobs that keep no message waiting are nobody's concern.
func TestJobsThatDoNotStartForNoMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeEnv(t, scaledJob())
		w.queues.SetDepth(emailQueue, 25)
		w.reconcile(t.Context())
		w.queues.SetDepth(emailQueue, 0)
		time.Sleep(time.Hour)
		w.reconcile(t.Context())
		w.awaitNumbers(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("NotLimited"))
		w.Expect(w.message(t)).To(HavePrefix("No message is outstanding."))
	})
}

func TestJobsThatDoNotEndAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeEnv(t, scaledJob())
		w.queues.SetDepth(emailQueue, 10)
		w.reconcile(t.Context())
		w.setReady(t, 1)
		w.reconcile(t.Context())
		w.setReady(t, 0)
		w.reconcile(t.Context())
		time.Sleep(2 * jobs.StartTimeout)
		w.reconcile(t.Context())
		w.awaitNumbers(t.Context())
		w.Expect(w.limited(t.Context())).To(Equal("NotLimited"))
		w.Expect(w.message(t)).To(And(ContainSubstring("activeDeadlineSeconds"), ContainSubstring("Accurate")))

		w.setReady(t, 1)
		w.reconcile(t.Context())
		w.awaitNumbers(t.Context())
		w.Expect(w.message(t)).To(Equal("No Job is held back."))

		time.Sleep(stillAfter)
		w.reconcile(t.Context())
		w.awaitNumbers(t.Context())
		w.Expect(w.message(t)).To(ContainSubstring("no message has left the queue"))
		w.queues.SetDepth(emailQueue, 9)
		w.reconcile(t.Context())
		w.awaitNumbers(t.Context())
		w.Expect(w.message(t)).To(Equal("No Job is held back."))
	})
}

// The history limits keep Jobs that take all of a quota: one is deleted for each new Job.
func TestHistoryGivesWayToAQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := newFakeEnv(t, scaledJob())
		w.queues.SetDepth(emailQueue, 30)
		w.reconcile(ctx)
		for _, name := range w.names() {
			w.finish(ctx, name, batchv1.JobComplete)
			time.Sleep(lateStatus)
		}
		w.queues.SetDepth(emailQueue, 0)
		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(3))
		oldest := w.names()[0]

		w.onCreate = refuse(errForbidden)
		w.queues.SetDepth(emailQueue, 1)
		w.reconcile(ctx)
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
		time.Sleep(2 * time.Second)
		w.reconcile(ctx)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(w.events.reasons).To(ContainElement("DeletedHistory"))
	})
}

// Another quota is not helped by deleting Jobs.
func TestHistoryStaysForAnotherRefusal(t *testing.T) {
	t.Parallel()
	w := newFakeEnv(t, scaledJob())
	w.queues.SetDepth(emailQueue, 10)
	w.reconcile(t.Context())
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)
	w.onCreate = refuse(invalid())
	w.reconcile(t.Context())
	w.Expect(w.jobs(t.Context())).To(HaveLen(1))
	w.Expect(w.limited(t.Context())).To(Equal("CreateRefused"))
}

func TestSuspensionIsReported(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.Suspend = true
	w := newFakeEnv(t, sj)
	w.queues.SetDepth(emailQueue, 10)
	w.reconcile(t.Context())
	w.Expect(w.limited(t.Context())).To(Equal("Suspended"))
	w.Expect(w.message(t)).To(ContainSubstring("spec.suspend"))
}

func TestActivationThresholdIsReported(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.ActivationThreshold = 10
	w := newFakeEnv(t, sj)
	w.queues.SetDepth(emailQueue, 10)
	w.reconcile(t.Context())
	w.Expect(w.limited(t.Context())).To(Equal("NotLimited"))
	w.Expect(w.message(t)).To(ContainSubstring("spec.activationThreshold"))
}
