// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
)

// subscribed is what the watcher says while all is well.
var subscribed = keyspace.State{Verdict: proof.Verdict{Reason: proof.ReasonSubscribed}}

func TestComputeStatus(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	sj.Generation = 4
	now := time.Unix(1000, 123_456_789)
	seen := observation{depth: 47, jobs: activeJobs(2), events: subscribed}
	seen.jobs.Active[0].Status.Ready = new(int32(1))
	seen.jobs.Succeeded = make([]*batchv1.Job, 3)
	seen.jobs.Failed = make([]*batchv1.Job, 4)

	status := computeStatus(sj, &sj.Status, seen, plan{known: true, desired: 5}, outcome{created: 3, template: &templateAccepted}, now)

	g.Expect(status).To(HaveField("ObservedGeneration", int64(4)))
	g.Expect(status.QueueDepth).To(HaveValue(Equal(int64(47))))
	g.Expect(status.DesiredJobs).To(HaveValue(Equal(int32(5))))
	g.Expect(status.ActiveJobs).To(Equal(int32(5)))
	g.Expect(status.PendingJobs).To(Equal(int32(4)), "a Job just created has no ready Pod")
	g.Expect(status.SucceededJobs).To(Equal(int32(3)))
	g.Expect(status.FailedJobs).To(Equal(int32(4)))
	g.Expect(status.LastScaleTime.Time).To(BeTemporally("==", time.Unix(1000, 0)), "as precise as the API server keeps it")
	g.Expect(status.Mode).To(Equal(scaledjobv1.ModeEvents))
	g.Expect(status.Conditions).To(HaveLen(5))
	g.Expect(status.Conditions).To(HaveEach(HaveField("ObservedGeneration", int64(4))))
	g.Expect(sj.Status).To(Equal(scaledjobv1.ScaledJobStatus{}), "what it is computed from stays as it is")
}

// What a pass could not see stays as it was.
func TestComputeStatusKeepsTheUnseen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()
	before := computeStatus(sj, &sj.Status, observation{depth: 47, events: subscribed}, plan{known: true, desired: 5, atMax: true},
		outcome{created: 5, template: &templateAccepted}, time.Unix(1000, 0))

	after := computeStatus(sj, before, observation{queueErr: unreachable}, plan{}, outcome{}, time.Unix(2000, 0))

	g.Expect(after.QueueDepth).To(Equal(before.QueueDepth))
	g.Expect(after.DesiredJobs).To(Equal(before.DesiredJobs))
	g.Expect(after.LastScaleTime).To(Equal(before.LastScaleTime))
	g.Expect(after.ActiveJobs).To(BeZero(), "Jobs were counted")
	g.Expect(after.Mode).To(Equal(before.Mode))
	for _, kind := range []string{
		scaledjobv1.ConditionScalingLimited, scaledjobv1.ConditionTemplateValid, scaledjobv1.ConditionNotificationsActive,
	} {
		g.Expect(apimeta.FindStatusCondition(after.Conditions, kind)).To(Equal(apimeta.FindStatusCondition(before.Conditions, kind)))
	}
}

func TestComputeStatusOfTheFirstPassWithoutRedis(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := scaledJob()

	status := computeStatus(sj, &sj.Status, observation{queueErr: unreachable}, plan{}, outcome{}, time.Unix(1000, 0))

	g.Expect(status.QueueDepth).To(BeNil(), "unknown is not 0")
	g.Expect(status.DesiredJobs).To(BeNil())
	g.Expect(status.LastScaleTime).To(BeNil())
	g.Expect(status.Conditions).To(ConsistOf(
		And(HaveField("Type", "QueueConnected"), HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "Unreachable")),
		And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "Unreachable")),
		And(HaveField("Type", "Reconciling"), HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Unreachable")),
	))
	g.Expect(status.Mode).To(BeEmpty(), "not decided yet")
}

func TestStatusWait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		condition, more    bool
		written, changedAt time.Time
		want               time.Duration
	}{
		"numbers, long after the last write":  {written: ago(time.Hour), changedAt: now, want: 0},
		"numbers, a second after":             {written: ago(time.Second), changedAt: now, want: 0},
		"numbers, soon after":                 {written: ago(300 * time.Millisecond), changedAt: now, want: 700 * time.Millisecond},
		"numbers, never written":              {changedAt: now, want: 0},
		"a condition":                         {condition: true, written: ago(time.Millisecond), changedAt: now, want: 0},
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
			mem := &memory{writtenAt: c.written, changedAt: c.changedAt}
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
	w.Expect(w.reconcileFails(t.Context())).To(MatchError(apierrors.IsConflict, "IsConflict"))
}

// A server whose error is another one each time must not have a status written each time.
func TestOtherWordsWaitLikeNumbers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	with := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: 1}}
	}
	before := with(metav1.ConditionFalse, "Unreachable", "Refused.")
	g.Expect(conditionsTurned(before, before)).To(BeFalse())
	g.Expect(conditionsTurned(before, with(metav1.ConditionFalse, "Unreachable", "Too slow."))).To(BeFalse())
	g.Expect(conditionsTurned(before, with(metav1.ConditionFalse, "AuthFailed", "Refused."))).To(BeTrue())
	g.Expect(conditionsTurned(before, with(metav1.ConditionTrue, "Unreachable", "Refused."))).To(BeTrue())
	g.Expect(conditionsTurned(before, nil)).To(BeTrue())
	other := with(metav1.ConditionFalse, "Unreachable", "Refused.")
	other[0].ObservedGeneration = 2
	g.Expect(conditionsTurned(before, other)).To(BeTrue())
}
