// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// setReady sets the number of ready Pods of all unfinished Jobs.
func (w *fakeEnv) setReady(ctx context.Context, ready int32) {
	for _, job := range w.jobs(ctx) {
		w.server.update(job.Name, func(job *batchv1.Job) { job.Status.Ready = &ready })
	}
}

// Workers pop their messages at startup. Until a Job counts as claimed, the waiting messages may be for it; after that,
// they are for new Jobs.
func TestAccurateWaitsForClaims(t *testing.T) {
	sj := scaledJob()
	sj.Spec.Threshold = 1
	sj.Spec.ScalingStrategy = scaledjobv1.ScalingStrategy{Type: scaledjobv1.StrategyAccurate}
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 3)
		w.Expect(w.names()).To(HaveLen(3))

		w.setReady(ctx, 1)
		result := w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(3), "the workers may not have popped yet")
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", 10*time.Second),
			"the reconcile at the end of the grace period is scheduled")

		w.queues.SetDepth(emailQueue, 2) // Three were popped, two are new.
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(3))
		w.reconcileAfter(ctx, 10*time.Second)
		w.Expect(w.names()).To(HaveLen(5))
		w.Expect(w.scaledJob(ctx).Status.DesiredJobs).To(HaveValue(BeEquivalentTo(5)))

		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(5), "two new Jobs for the two new messages")
	})
}

// Redis sends no notification when a message becomes due, so the operator has to schedule a reconcile.
func TestAPassComesWhenAMessageFallsDue(t *testing.T) {
	sj := scaledJob()
	sj.Spec.QueueName = ""
	sj.Spec.Queues = []scaledjobv1.Queue{{
		Name: "delayed", Type: scaledjobv1.QueueSortedSet, SortedSet: &scaledjobv1.SortedSetQueue{Window: scaledjobv1.WindowDue},
	}}
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		for due, want := range map[time.Duration]time.Duration{
			7 * time.Second:      7 * time.Second,
			time.Millisecond:     dueSpacing,
			-time.Second:         dueSpacing,
			24 * 365 * time.Hour: 0,
		} {
			w.queues.SetCount("delayed", queue.Count{NextDue: time.Now().Add(due)})
			w.reconcile(ctx) // The status write may still be delayed.
			time.Sleep(2 * time.Second)
			w.queues.SetCount("delayed", queue.Count{NextDue: time.Now().Add(due)})
			result := w.reconcile(ctx)
			if want == 0 {
				w.Expect(result.RequeueAfter).To(BeNumerically("~", 30*time.Second, 3*time.Second))
				continue
			}
			w.Expect(result.RequeueAfter).To(Equal(want))
			w.Expect(result.Priority).To(HaveValue(Equal(enqueue.PriorityGrowth)))
		}
		w.Expect(w.watcher.observed).To(BeEmpty(), "growth without a notification is normal for this queue")

		w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
		w.queues.SetCount("delayed", queue.Count{NextDue: time.Now().Add(time.Millisecond)})
		w.reconcile(ctx)
		w.Expect(w.reconcile(ctx).RequeueAfter).To(Equal(idleDueSpacing), "while no Job can be created")
	})
}

func TestTheStatusHasEachQueue(t *testing.T) {
	sj := ofQueues(scaledjobv1.Queue{Name: "letters"}, scaledjobv1.Queue{Name: "letters:busy", Role: scaledjobv1.RoleInProgress})
	w := inParallel(t, sj)
	w.queues.SetCount("letters", queue.Count{Waiting: 12})
	w.queues.SetCount("letters:busy", queue.Count{InProgress: 11})
	w.reconcile(t.Context())

	status := w.scaledJob(t.Context()).Status
	w.Expect(status.QueueDepth).To(HaveValue(BeEquivalentTo(23)))
	w.Expect(status.DesiredJobs).To(HaveValue(BeEquivalentTo(3)))
	for i := range status.Queues {
		w.Expect(status.Queues[i].NonEmptySince.Time).To(BeTemporally("~", time.Now(), time.Minute))
		status.Queues[i].NonEmptySince = nil
	}
	w.Expect(status.Queues).To(Equal([]scaledjobv1.QueueStatus{
		{Name: "letters", Depth: new(int64(12))}, {Name: "letters:busy", Depth: new(int64(11))},
	}))
	w.Expect(w.scrape()["scaledjob_queue_depth"]).To(BeEquivalentTo(23), "both series")

	w.queues.SetError("letters", &failure.Error{Reason: failure.ReasonWrongType, Err: errAway})
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Queues = spec.Queues[:1] })
	w.reconcile(t.Context())
	w.Expect(w.scaledJob(t.Context()).Status.Queues).To(ConsistOf(And(HaveField("Name", "letters"), HaveField("Depth", BeNil()))),
		"the depth of the previous queues is removed")
	w.Expect(w.scrape()).NotTo(HaveKey("scaledjob_queue_depth"))
}

func TestEntriesThatWereTrimmedAreReported(t *testing.T) {
	sj := ofQueues(scaledjobv1.Queue{Name: "other"}, stream("stream", "workers"))
	w := inParallel(t, sj)
	w.queues.SetCount("stream", queue.Count{Trimmed: true})
	w.reconcile(t.Context())
	is := w.condition(t.Context(), scaledjobv1.ConditionQueueConnected)
	w.Expect(is.Status).To(Equal(metav1.ConditionTrue))
	w.Expect(is.Message).To(ContainSubstring(`XAUTOCLAIM "stream" "workers" `))
	w.Expect(w.names()).To(BeEmpty())

	w.queues.SetCount("stream", queue.Count{})
	w.Eventually(func() string { // A change of the message alone waits for a second.
		w.reconcile(t.Context())
		return w.condition(t.Context(), scaledjobv1.ConditionQueueConnected).Message
	}).WithTimeout(30 * time.Second).Should(Equal("The depth of the queue was read."))
}

// A worker has to start to create the group.
func TestAMissingGroupIsReportedAndHasAJob(t *testing.T) {
	sj := ofQueues(stream("stream", "workers"))
	w := inParallel(t, sj)
	w.queues.SetCount("stream", queue.Count{Waiting: 1, GroupMissing: true})
	w.reconcile(t.Context())
	w.Expect(w.names()).To(HaveLen(1))
	for _, kind := range []string{scaledjobv1.ConditionQueueConnected, scaledjobv1.ConditionReady} {
		is := w.condition(t.Context(), kind)
		w.Expect(is).To(beCondition(metav1.ConditionFalse, scaledjobv1.ReasonConsumerGroupNotFound), kind)
	}
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReconciling).Reason).
		To(Equal(scaledjobv1.ReasonConsumerGroupNotFound))

	w.queues.SetCount("stream", queue.Count{Waiting: 20, InProgress: 1})
	w.reconcile(t.Context())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	w.Expect(w.names()).To(HaveLen(3))
}

// The number of messages that can be counted in a long stream varies. That must count neither as growth without a
// notification, nor as messages that left.
func TestACountThatWasCutOffSaysNothingOfGrowth(t *testing.T) {
	sj := scaledJob()
	w := inParallel(t, sj)
	w.queues.SetCount(emailQueue, queue.Count{Waiting: 100, Partial: true})
	w.reconcile(t.Context())
	w.Expect(w.watcher.observed).To(BeEmpty())
	w.Expect(w.scaledJob(t.Context()).Status.QueueDepth).To(HaveValue(BeEquivalentTo(100)), "the lower bound")

	spec := scaledjob.Resolve(sj)
	many := queueState(&spec, observation{queues: queues{counts: queue.Counts{{Waiting: 100, Partial: true}}}}, 0)
	more := queueState(&spec, observation{queues: queues{counts: queue.Counts{{Waiting: 70, Partial: true}}}}, 0)
	w.Expect(more.Depth).To(Equal(many.Depth))

	w.reconcileAt(t.Context(), 90)
	w.Expect(w.watcher.observed).To(Equal([]int64{90}))
}
