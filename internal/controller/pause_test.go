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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// finishActive makes all unfinished Jobs finish.
func (w *fakeEnv) finishActive(ctx context.Context, kind batchv1.JobConditionType) {
	for _, job := range w.jobs(ctx) {
		if len(job.Status.Conditions) == 0 {
			w.finish(ctx, job.Name, kind)
		}
	}
}

// limited returns the reason of ScalingLimited in the stored status.
func (w *fakeEnv) limited(ctx context.Context) string {
	return w.condition(ctx, scaledjobv1.ConditionScalingLimited).Reason
}

// forgetAll simulates a restart of the operator.
func (w *fakeEnv) forgetAll() { w.r.memories = memories{} }

func TestFailingJobsPauseCreation(t *testing.T) {
	sj := scaledJob()
	sj.Spec.MinReplicas = 3
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 30)
		w.Expect(w.names()).To(HaveLen(3))

		created := 3
		for range 2 {
			pause := scaling.ProbeDelay
			w.finishActive(ctx, batchv1.JobFailed)
			result := w.reconcile(ctx)
			w.Expect(w.names()).To(HaveLen(created), "minReplicas are not created either")
			w.Expect(result.RequeueAfter).To(BeNumerically("<=", pause))
			w.Expect(w.limited(ctx)).To(Equal("JobsFailing"))
			w.Expect(w.watcher.idle).To(BeFalse(), "a message that arrives gets a probe")
			w.Expect(w.scaledJob(ctx).Status.DesiredJobs).To(HaveValue(Equal(int32(3))),
				"the due Jobs are still reported")

			w.reconcileAfter(ctx, pause-time.Millisecond)
			w.Expect(w.names()).To(HaveLen(created))
			w.Expect(w.scaledJob(ctx).Status.FailedJobs).To(BeEquivalentTo(created), "the Jobs are still counted")
			w.reconcileAfter(ctx, time.Millisecond)
			created++
			w.Expect(w.names()).To(HaveLen(created))
			w.Expect(w.limited(ctx)).To(Equal("JobsFailing"), "nothing has succeeded yet")
		}
		w.Expect(w.events.reasons).To(Equal([]string{"CreatedJobs", "JobsFailing", "CreatedJobs"}),
			"the last event waits for its status")
		next := time.Now().Add(scaling.ProbeDelay)
		w.awaitNumbers(ctx)
		w.Expect(w.scaledJob(ctx).Status.CreationPausedUntil.Time).To(BeTemporally("~", next, time.Second))

		w.finish(ctx, w.names()[created-1], batchv1.JobComplete)
		w.reconcileAt(ctx, 29)
		w.Expect(w.names()).To(HaveLen(created+2), "one more than succeeded")
		w.queues.SetDepth(emailQueue, 28)
		w.finish(ctx, w.names()[created], batchv1.JobComplete)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(created + 4))
		w.awaitNumbers(ctx)
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		w.Expect(w.scaledJob(ctx).Status.CreationPausedUntil).To(BeNil())
		w.Expect(w.events.reasons).To(ContainElement("CreationResumed"))
	})
}

// Notifications count as much as depths. A queue that could not be observed is no evidence of missing progress.
func TestJobsThatMadeProgressPauseNothing(t *testing.T) {
	inBubbles(t, scaledJob(), map[string]func(w *fakeEnv, round int){
		"one message less": func(w *fakeEnv, round int) { w.queues.SetDepth(emailQueue, int64(29-round)) },
		"a notification that a message left": func(w *fakeEnv, _ int) {
			w.watcher.state.LastEnd = time.Now()
		},
		"a new subscription": func(w *fakeEnv, _ int) { w.watcher.state.Since = time.Now() },
	}, func(ctx context.Context, w *fakeEnv, progress func(w *fakeEnv, round int)) {
		w.reconcileAt(ctx, 30)
		for round := range 5 {
			time.Sleep(time.Second)
			w.finishActive(ctx, batchv1.JobComplete)
			progress(w, round)
			w.reconcile(ctx)
		}
		w.Expect(w.names()).To(HaveLen(3 + 5*3))
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
	})
}

func TestRefusedCreatesPauseCreation(t *testing.T) {
	inBubbles(t, scaledJob(), map[string]error{
		"forbidden": errForbidden,
		"invalid":   apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "", nil),
	}, func(ctx context.Context, w *fakeEnv, refusal error) {
		w.queues.SetDepth(emailQueue, 200)
		w.onCreate = refuse(refusal)
		for attempt, pause := range []time.Duration{10 * time.Second, 20 * time.Second} {
			result := w.reconcile(ctx)
			w.reconcile(ctx)
			w.Expect(w.names()).To(HaveLen(attempt + 1))
			w.Expect(result.RequeueAfter).To(BeNumerically("<=", pause))
			w.Expect(w.limited(ctx)).To(Equal("CreateRefused"))
			w.Expect(w.watcher.idle).To(BeTrue())
			w.Expect(w.scrape()["scaledjob_reconcile_errors_total"]).To(BeEquivalentTo(attempt+1),
				"it counts as an error")
			time.Sleep(pause)
		}
		w.Expect(w.events.reasons).To(Equal([]string{"CreateRefused"}))

		w.onCreate = send
		w.reconcile(ctx)
		w.Expect(w.jobs(ctx)).To(HaveLen(20))
		w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
	})
}

// A refusal is no end of a pause, although nothing can be created that would show whether Jobs still fail.
func TestARefusalDoesNotEndAPauseOfFailingJobs(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 30)
		w.finishActive(ctx, batchv1.JobFailed)
		w.reconcile(ctx)
		w.reconcileAfter(ctx, scaling.ProbeDelay)
		w.onCreate = refuse(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "", nil))
		w.finish(ctx, w.names()[3], batchv1.JobComplete)
		w.queues.SetDepth(emailQueue, 29)
		for range 3 {
			w.reconcile(ctx)
			time.Sleep(time.Second)
		}
		w.Expect(w.limited(ctx)).To(Equal("JobsFailing"))
		w.onCreate = send
		w.reconcileAfter(ctx, scaling.FirstPause)
		w.Expect(w.jobs(ctx)).To(HaveLen(6), "those that a success lets be created")
	})
}

// With a new template, or the end of a suspension, the user signals that the cause is fixed. Another edit, or a new
// default of the CRD, is no such signal.
func TestPausesEndByTheHandOfTheUser(t *testing.T) {
	type row struct {
		ends   bool
		change func(ctx context.Context, w *fakeEnv)
	}
	inBubbles(t, scaledJob(), map[string]row{
		"another image": {true, func(ctx context.Context, w *fakeEnv) { w.edit(ctx, anotherImage) }},
		"suspended and resumed": {true, func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
			w.reconcile(ctx)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = false })
		}},
		"suspended while Redis was away, and resumed": {true, func(ctx context.Context, w *fakeEnv) {
			w.queues.SetError(emailQueue, &failure.Error{Reason: failure.ReasonUnreachable, Err: errAway})
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
			w.reconcile(ctx)
			w.queues.SetDepth(emailQueue, 30)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = false })
		}},
		"suspended, and resumed while the operator was away": {true, func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = true })
			w.reconcile(ctx)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = false })
			w.forgetAll()
		}},
		"another image while the operator was away": {true, func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, anotherImage)
			w.forgetAll()
		}},
		"another limit": {false, func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(50)) })
		}},
		"a default that the CRD gains": {false, func(ctx context.Context, w *fakeEnv) { w.reread(ctx, anotherImage) }},
	}, func(ctx context.Context, w *fakeEnv, c row) {
		w.reconcileAt(ctx, 30)
		w.finishActive(ctx, batchv1.JobFailed)
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(3))

		time.Sleep(2 * time.Second) // for two more changes of conditions
		c.change(ctx, w)
		w.reconcile(ctx)
		if c.ends {
			w.Expect(w.names()).To(HaveLen(6))
			w.Expect(w.limited(ctx)).To(Equal("NotLimited"))
		} else {
			w.Expect(w.names()).To(HaveLen(3))
			w.Expect(w.limited(ctx)).To(Equal("JobsFailing"))
		}
	})
}

func TestPausesSurviveARestart(t *testing.T) {
	inBubbles(t, scaledJob(), map[string]batchv1.JobConditionType{
		"JobsFailing": batchv1.JobFailed, "NoProgress": batchv1.JobComplete,
	}, func(ctx context.Context, w *fakeEnv, outcome batchv1.JobConditionType) {
		w.reconcileAt(ctx, 30)
		w.finishActive(ctx, outcome)
		w.reconcile(ctx)
		reason := w.limited(ctx)
		w.Expect(reason).To(Equal(map[bool]string{true: "JobsFailing", false: "NoProgress"}[outcome == batchv1.JobFailed]))

		for range 3 {
			w.forgetAll()
			w.awaitNumbers(ctx)
		}
		w.Expect(w.names()).To(HaveLen(3))
		w.Expect(w.limited(ctx)).To(Equal(reason))
		w.reconcileAfter(ctx, 8*time.Second)
		w.Expect(w.names()).To(HaveLen(4), "the pause is not extended")
	})
}

// Failed Jobs count even if they were pruned.
func TestPrunedJobsCount(t *testing.T) {
	sj := scaledJob()
	sj.Spec.FailedJobsHistoryLimit = new(int32(0))
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.queues.SetDepth(emailQueue, 10)
		for range 5 {
			w.reconcile(ctx)
			w.finishActive(ctx, batchv1.JobFailed)
		}
		w.reconcile(ctx)
		w.Expect(w.names()).To(HaveLen(3))
		w.Expect(w.jobs(ctx)).To(BeEmpty())
		w.Expect(w.limited(ctx)).To(Equal("JobsFailing"))
	})
}

// An unknown depth is not an unchanged depth.
func TestUnknownDepthIsNoLackOfProgress(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 30)
		w.queues.SetError(emailQueue, &failure.Error{Reason: failure.ReasonUnreachable, Err: errAway})
		w.finishActive(ctx, batchv1.JobComplete)
		w.reconcile(ctx)
		w.reconcileAt(ctx, 30)
		w.Expect(w.names()).To(HaveLen(6))
	})
}

func TestFinishesAreInOrderOfTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	job := func(ordinal int64, hash string, ended batchv1.JobConditionType, second int64) *batchv1.Job {
		job := jobs.Build(scaledJob(), "template", ordinal, 0)
		job.Annotations[scaledjobv1.AnnotationTemplateHash] = hash
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: ended, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(second, 0),
		}}
		return job
	}
	g.Expect(finishesOf([]*batchv1.Job{
		job(4, "now", batchv1.JobComplete, 7),
		job(3, "now", batchv1.JobFailed, 7),
		job(2, "before", batchv1.JobFailed, 8),
		job(1, "now", batchv1.JobFailed, 9),
		job(5, "now", batchv1.JobFailed, 1),
	}, "now")).To(Equal([]scaling.Finish{
		{Ordinal: 5, Failed: true, At: time.Unix(1, 0)},
		{Ordinal: 3, Failed: true, At: time.Unix(7, 0)},
		{Ordinal: 4, At: time.Unix(7, 0)},
		{Ordinal: 1, Failed: true, At: time.Unix(9, 0)},
	}))
}

// Messages in progress of dead workers limit only the Jobs for them. That is reported also while a Job looks for them.
func TestOrphanedMessages(t *testing.T) {
	sj := ofQueues(scaledjobv1.Queue{Name: "letters"}, scaledjobv1.Queue{Name: "letters:busy", Role: scaledjobv1.RoleInProgress})
	inBubble(t, sj, func(ctx context.Context, w *fakeEnv) {
		w.queues.SetCount("letters:busy", queue.Count{InProgress: 7})
		seconds := func(count int) {
			for range count {
				w.reconcile(ctx)
				w.awaitNumbers(ctx)
				w.finishActive(ctx, batchv1.JobComplete)
			}
		}
		seconds(60)
		condition := w.condition(ctx, scaledjobv1.ConditionScalingLimited)
		w.Expect(condition.Reason).To(Equal("MessagesOrphaned"))
		w.Expect(condition.Message).To(ContainSubstring(`7 in "letters:busy"`))

		seconds(120)
		w.Expect(w.events.reasons).NotTo(ContainElement("CreationResumed"))
		w.queues.SetCount("letters", queue.Count{Waiting: 23})
		created := len(w.names())
		w.reconcile(ctx)
		w.Expect(len(w.names())-created).To(BeNumerically("~", 3, 1), "three for the others at once, and perhaps a probe")
	})
}

// The clocks of the Job controller and of the previous leader may be off by hours. That must cause neither surplus Jobs
// nor a pause longer than LongestPause.
func TestClocksOfOthers(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-100 * 365 * 24 * time.Hour, -5 * time.Hour, 0, 5 * time.Hour, 100 * 365 * 24 * time.Hour} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, restarted: %t", skew, restarted), func(t *testing.T) {
				inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
					w.reconcileAt(ctx, 30)
					for _, job := range w.jobs(ctx) {
						w.finishAt(ctx, job.Name, batchv1.JobFailed, time.Now().Add(skew))
					}
					w.reconcile(ctx)
					if restarted {
						w.skewStatus(ctx, skew)
						w.forgetAll()
					}

					for _, wait := range []time.Duration{0, time.Second, scaling.LongestPause} {
						w.Expect(w.reconcileAfter(ctx, wait).RequeueAfter).To(BeNumerically("<=", scaling.LongestPause))
						w.Expect(w.running(ctx)).To(BeNumerically("<=", 3))
					}
					w.Expect(w.running(ctx)).To(Equal(1), "a probe, minutes later")
				})
			})
		}
	}
}

// skewStatus shifts the times of the status by skew.
func (w *fakeEnv) skewStatus(ctx context.Context, skew time.Duration) {
	sj := w.scaledJob(ctx)
	for i := range sj.Status.Conditions {
		moved := &sj.Status.Conditions[i].LastTransitionTime
		*moved = metav1.NewTime(moved.Add(skew))
	}
	w.put(sj)
}
