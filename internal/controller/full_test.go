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
	"miracle.dev/scaledjob-operator/internal/queue"
)

// Only as many Jobs start at the same time as maxPendingReplicas says. The next ones follow as these become ready or end.
func TestPendingJobsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		sj := scaledJob()
		sj.Spec.MaxPendingReplicas = new(int32(3))
		w := newWorld(t, sj)
		w.queues.SetDepth(emailQueue, 80)
		for range 2 {
			w.reconcile(ctx)
			w.Expect(w.names()).To(HaveLen(3))
			w.Expect(w.watcher.idle).To(BeTrue())
		}
		w.Expect(w.limited(ctx)).To(Equal(scaledjobv1.ReasonAtMaxPending))

		w.setReady(t, 1)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(6))
		w.finish(ctx, w.names()[5], batchv1.JobFailed)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(7))
		w.setReady(t, 1)
		w.reconcile(ctx)
		w.Expect(w.running(ctx)).To(Equal(8))
		time.Sleep(lateStatus)
		w.reconcile(ctx)
		w.Expect(w.limited(ctx)).To(Equal(scaledjobv1.ReasonNotLimited))
	})
}

func TestSpareJobsAreRefilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		sj := scaledJob()
		sj.Spec.QueueName, sj.Spec.Threshold, sj.Spec.SpareReplicas = "", 1, 2
		sj.Spec.Queues = []scaledjobv1.Queue{{Name: "waiting"}, {Name: "busy", Role: scaledjobv1.RoleInProgress}}
		w := newWorld(t, sj)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(2))
		w.setReady(t, 1)
		for range 3 {
			w.reconcile(ctx)
		}
		w.Expect(w.names()).To(HaveLen(2), "ready spare Jobs do not get others")

		w.queues.SetDepth("waiting", 3)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(5))
		w.queues.SetDepth("waiting", 0)
		w.queues.SetCount("busy", queue.Count{InProgress: 3})
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(5), "three Jobs have taken messages, and two are spare")
		w.queues.SetCount("busy", queue.Count{InProgress: 4})
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(6))
	})
}

// Messages that do not exceed activationThreshold get their Jobs after maxWaitSeconds, and no message waits for longer
// because the operator was restarted.
func TestMessagesDoNotWaitForLongerThanMaxWaitSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		sj := scaledJob()
		sj.Spec.ActivationThreshold, sj.Spec.MaxWaitSeconds, sj.Spec.PollingIntervalSeconds = 50, new(int32(60)), 3600
		w := newWorld(t, sj)
		w.reconcile(ctx)
		time.Sleep(time.Hour)
		w.queues.SetDepth(emailQueue, 12)
		w.reconcile(ctx)
		time.Sleep(lateStatus)
		w.reconcile(ctx)
		since := w.scaledJob(ctx).Status.Queues[0].NonEmptySince
		w.Expect(since).NotTo(BeNil())
		time.Sleep(time.Until(since.Add(30 * time.Second)))

		w.forgetAll()
		result := w.reconcile(ctx)
		w.Expect(w.names()).To(BeEmpty())
		w.Expect(result.RequeueAfter).To(Equal(30 * time.Second))
		w.Expect(w.condition(ctx, scaledjobv1.ConditionScalingLimited).Message).To(ContainSubstring("spec.maxWaitSeconds"))
		time.Sleep(result.RequeueAfter)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(2))

		w.queues.SetDepth(emailQueue, 0)
		w.reconcile(ctx)
		time.Sleep(time.Minute)
		w.queues.SetDepth(emailQueue, 30)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(2), "these have just arrived")
		time.Sleep(time.Minute)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(3), "two Jobs of three are active")
	})
}

// Messages that are in progress in a Job do not wait; without any Job they do.
func TestMessagesInProgressWaitOnlyWithoutAJob(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		count   queue.Count
		jobs    int
		overdue bool
	}{
		"waiting":                   {queue.Count{Waiting: 1}, 1, true},
		"in progress in a Job":      {queue.Count{InProgress: 1}, 1, false},
		"in progress without a Job": {queue.Count{InProgress: 1}, 0, true},
		"none":                      {queue.Count{}, 0, false},
		"above the threshold":       {queue.Count{Waiting: 51}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			spec := &scaledjobv1.ScaledJobSpec{ActivationThreshold: 50, MaxWaitSeconds: new(int32(60))}
			seen := observation{queues: queues{counts: queue.Counts{c.count}}, jobs: activeJobs(c.jobs)}
			mem := &memory{waitingSince: now.Add(time.Hour)}
			mem.observeWait(spec, seen, now) // The clock was set back.
			overdue, next := mem.observeWait(spec, seen, now.Add(59*time.Second))
			g.Expect(overdue).To(BeFalse())
			g.Expect(next.Equal(now.Add(time.Minute))).To(Equal(c.overdue))
			overdue, _ = mem.observeWait(spec, seen, now.Add(time.Minute))
			g.Expect(overdue).To(Equal(c.overdue))
		})
	}
}
