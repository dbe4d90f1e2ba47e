// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// Only as many Jobs start at the same time as maxPendingReplicas says. The next ones follow as these become ready or
// end.
func TestPendingJobsAreBounded(t *testing.T) {
	sj := scaledJob()
	sj.Spec.MaxPendingReplicas = new(int32(3))
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 80)
		for range 2 {
			w.reconcile(ctx)
			w.Expect(w.names()).To(HaveLen(3))
			w.Expect(w.watcher.idle).To(BeTrue())
		}
		w.Expect(w.limited(ctx)).To(Equal(scaledjobv1.ReasonAtMaxPending))

		w.setReady(ctx, 1)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(6))
		w.finish(ctx, w.names()[5], batchv1.JobFailed)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(7))
		w.setReady(ctx, 1)
		w.reconcile(ctx)
		w.Expect(w.running(ctx)).To(Equal(8))
		w.awaitNumbers(ctx)
		w.Expect(w.limited(ctx)).To(Equal(scaledjobv1.ReasonNotLimited))
	})
}

func TestSpareJobsAreRefilled(t *testing.T) {
	sj := ofQueues(scaledjobv1.Queue{Name: "waiting"}, scaledjobv1.Queue{Name: "busy", Role: scaledjobv1.RoleInProgress})
	sj.Spec.Threshold, sj.Spec.SpareReplicas = 1, 2
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(2))
		w.setReady(ctx, 1)
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

// batching is a ScaledJob whose messages wait for others, up to a minute.
func batching() *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.Spec.ActivationThreshold, sj.Spec.MaxWaitSeconds, sj.Spec.PollingIntervalSeconds = 50, new(int32(60)), 3600
	return sj
}

// Messages that do not exceed activationThreshold get their Jobs after maxWaitSeconds, and no message waits for longer
// because the operator was restarted.
func TestMessagesDoNotWaitForLongerThanMaxWaitSeconds(t *testing.T) {
	inBubble(t, batching(), func(ctx context.Context, w *fakeEnv) {
		w.reconcile(ctx)
		time.Sleep(time.Hour)
		w.reconcileAt(ctx, 12)
		w.awaitNumbers(ctx)
		since := w.scaledJob(ctx).Status.Queues[0].NonEmptySince
		w.Expect(since).NotTo(BeNil())
		time.Sleep(time.Until(since.Add(30 * time.Second)))

		w.forgetAll()
		result := w.reconcile(ctx)
		w.Expect(w.names()).To(BeEmpty())
		w.Expect(result.RequeueAfter).To(Equal(30 * time.Second))
		w.Expect(w.condition(ctx, scaledjobv1.ConditionScalingLimited).Message).To(ContainSubstring("spec.maxWaitSeconds"))
		w.reconcileAfter(ctx, result.RequeueAfter)
		w.Expect(w.names()).To(HaveLen(2))

		w.reconcileAt(ctx, 0)
		time.Sleep(time.Minute)
		w.reconcileAt(ctx, 30)
		w.Expect(w.names()).To(HaveLen(2), "these have just arrived")
		w.reconcileAfter(ctx, time.Minute)
		w.Expect(w.names()).To(HaveLen(3), "two Jobs of three are active")
	})
}

// Messages wait while they have no Job, whether they are in progress or not.
func TestMessagesWithTheirJobsDoNotWait(t *testing.T) {
	now := time.Unix(1000, 0)
	type row struct {
		count   queue.Count
		jobs    int
		overdue bool
	}
	bubble.Each(t, map[string]row{
		"without a Job":             {queue.Count{Waiting: 11}, 0, true},
		"with too few Jobs":         {queue.Count{Waiting: 11}, 1, true},
		"with their Jobs":           {queue.Count{Waiting: 11}, 2, false},
		"in progress in a Job":      {queue.Count{InProgress: 1}, 1, false},
		"in progress without a Job": {queue.Count{InProgress: 1}, 0, true},
		"none":                      {queue.Count{}, 0, false},
	}, func(_ *testing.T, g Gomega, c row) {
		sj := scaledJob()
		sj.Spec.ActivationThreshold = 50
		spec := scaledjob.Resolve(sj)
		seen := observation{queues: queues{counts: queue.Counts{c.count}}, jobs: activeJobs(c.jobs)}
		mem := &memory{waitingSince: now.Add(time.Hour)} // The clock was set back.
		overdue, next := mem.observeWait(time.Minute, &spec, seen, now)
		g.Expect(overdue).To(BeFalse())
		g.Expect(next.Equal(now.Add(time.Minute))).To(Equal(c.overdue))
		overdue, _ = mem.observeWait(time.Minute, &spec, seen, now.Add(time.Minute-1))
		g.Expect(overdue).To(BeFalse())
		overdue, _ = mem.observeWait(time.Minute, &spec, seen, now.Add(time.Minute))
		g.Expect(overdue).To(Equal(c.overdue))
	})
}

// Neither edits of the queues nor one while Redis can't be read after a restart make messages wait for longer.
func TestEditsDoNotMakeMessagesWaitForLonger(t *testing.T) {
	const longest = time.Minute
	sj := batching()
	sj.Spec.QueueName, sj.Spec.Queues = "", []scaledjobv1.Queue{{Name: emailQueue}}
	inBubbles(t, sj, map[string]func(ctx context.Context, w *fakeEnv){
		"of the queues": func(ctx context.Context, w *fakeEnv) {
			for i := range 2 {
				time.Sleep(longest / 2)
				w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) {
					spec.Queues = append(spec.Queues, scaledjobv1.Queue{Name: fmt.Sprint("other-", i)})
				})
				w.reconcile(ctx)
			}
		},
		"while Redis can't be read after a restart": func(ctx context.Context, w *fakeEnv) {
			w.forgetAll()
			w.queues.SetError(emailQueue, &failure.Error{Reason: failure.ReasonUnreachable, Err: errAway})
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(21)) })
			w.reconcile(ctx)
			w.awaitNumbers(ctx)
			w.queues.SetDepth(emailQueue, 12)
			w.reconcileAfter(ctx, longest)
		},
	}, func(ctx context.Context, w *fakeEnv, edit func(ctx context.Context, w *fakeEnv)) {
		w.reconcileAt(ctx, 12)
		w.awaitNumbers(ctx)
		edit(ctx, w)
		w.Expect(w.names()).To(HaveLen(2))
	})
}

// Once the messages of a batch have their Jobs, further messages are the next batch, although the queue is never empty.
func TestMicroBatchesFollowEachOther(t *testing.T) {
	inBubble(t, batching(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 20)
		w.reconcileAfter(ctx, time.Minute)
		w.Expect(w.names()).To(HaveLen(2))
		w.reconcile(ctx)
		w.queues.SetDepth(emailQueue, 5)
		w.finishActive(ctx, batchv1.JobComplete)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(2), "these five wait for others")
		w.reconcileAfter(ctx, time.Minute)
		w.Expect(w.names()).To(HaveLen(3))
	})
}

// The times of messages are in the status. They stay over edits of other fields, failed reads and restarts, and go with
// their queue.
func TestTimesOfMessages(t *testing.T) {
	stream := scaledjobv1.Queue{Name: "events", Type: scaledjobv1.QueueStream}
	inBubble(t, ofQueues(stream), func(ctx context.Context, w *fakeEnv) {
		began := time.Now()
		w.queues.oldest = []time.Time{began.Add(-time.Minute)}
		status := func() scaledjobv1.QueueStatus {
			w.reconcile(ctx)
			w.awaitNumbers(ctx)
			return w.scaledJob(ctx).Status.Queues[len(w.scaledJob(ctx).Status.Queues)-1]
		}
		w.queues.SetDepth("events", 5)
		w.reconcile(ctx)
		first := status()
		w.Expect(first.NonEmptySince.Time).To(BeTemporally("==", began))
		w.Expect(first.OldestMessageTime.Time).To(BeTemporally("==", began.Add(-time.Minute)))
		w.Expect(w.queues.asked).To(Equal(1), "not each time")

		w.queues.oldest = nil
		time.Sleep(oldestInterval)
		w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Queues = []scaledjobv1.Queue{{Name: "before"}, stream}
		})
		w.Expect(status()).To(Equal(first), "Redis did not answer, and the queue is another one of the spec")
		asked := w.queues.asked
		time.Sleep(oldestInterval)
		w.Expect(status()).To(Equal(first))
		w.Expect(w.queues.asked).To(Equal(asked), "nor soon again")

		w.forgetAll()
		w.queues.SetError("events", &failure.Error{Reason: failure.ReasonUnreachable, Err: errAway})
		w.reconcile(ctx)
		w.queues.SetDepth("events", 5)
		w.Expect(status().NonEmptySince).To(Equal(first.NonEmptySince))

		w.queues.SetDepth("events", 0)
		w.Expect(status().NonEmptySince).To(BeNil())
		w.queues.SetDepth("events", 1)
		w.Expect(status().NonEmptySince.Time).To(BeTemporally(">", began))
	})
}

// Messages that arrive while Redis is asked for the oldest one get their Jobs after that. So a slow server is asked
// seldom.
func TestASlowServerIsSeldomAskedForTheOldestMessage(t *testing.T) {
	inBubble(t, ofQueues(scaledjobv1.Queue{Name: "events", Type: scaledjobv1.QueueStream}), func(ctx context.Context, w *fakeEnv) {
		w.queues.oldest, w.queues.oldestTakes = []time.Time{time.Now()}, 200*time.Millisecond
		w.queues.SetDepth("events", 5)
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			w.reconcile(ctx)
			time.Sleep(time.Second)
		}
		asking := time.Duration(w.queues.asked) * w.queues.oldestTakes
		w.Expect(asking).To(BeNumerically("<", 10*time.Minute/100))
		w.Expect(w.queues.asked).To(BeNumerically(">", 1))
	})
}

// Jobs that wait for their admission are reported if no other Job is active, and not at once: a controller that admits
// Jobs suspends each for a moment.
func TestSuspendedJobsAreReported(t *testing.T) {
	sj := scaledJob()
	sj.Spec.JobTemplate.Spec.Suspend = new(true)
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 20)
		suspend := func(name string, is bool) {
			w.server.update(name, func(job *batchv1.Job) { job.Spec.Suspend = &is })
		}
		w.reconcile(ctx)
		suspend(w.names()[0], false)
		w.reconcileAfter(ctx, time.Minute-2*admissionTimeout)
		suspend(w.names()[0], true)
		result := w.reconcile(ctx)
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", admissionTimeout))
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"), "one of them was not suspended a moment ago")
		w.reconcileAfter(ctx, admissionTimeout)
		w.Expect(w.limited(ctx)).To(Equal("JobsSuspended"))
		w.awaitNumbers(ctx)
		w.Expect(w.scaledJob(ctx).Status.SuspendedJobs).To(BeEquivalentTo(2))
		suspend(w.names()[1], false)
		w.reconcileAfter(ctx, time.Second)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
	})
}
