// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// The workers of 20 messages are dead, and nobody takes over their messages. Others still get their Jobs.
func TestMessagesOfDeadWorkersDoNotHoldUpOthers(t *testing.T) {
	skip.UnderShort(t, "waits a minute; see TestJobsThatComeToNothingPauseCreationUntilTheTemplateIsCorrected")
	t.Parallel()
	const dead, limit, others = 20, 5, 3
	s := newScaledJob(t)
	busy := s.Queue + ":busy"
	for message := range dead {
		s.Expect(s.redis.Client().LPush(t.Context(), busy, message).Err()).To(Succeed())
	}
	s.create(s.of(scaledjobv1.Queue{}, scaledjobv1.Queue{Name: ":busy", Role: scaledjobv1.RoleInProgress}),
		ending(cluster.PodSucceedAfter), scene.AtMost(0))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	start := time.Now()
	s.Update(scene.AtMost(limit))
	// On a busy machine, the reason before it, NoProgress, may be over before the status shows it.
	s.expectLimit(scaledjobv1.ReasonMessagesOrphaned)
	// The unfinished Jobs may hold as many of them.
	s.Expect(s.condition(scaledjobv1.ConditionScalingLimited)).To(MatchRegexp(`up to (1[%d-9]|%d) in `, (dead-limit)%10, dead))
	s.Expect(s.jobsEver()).To(BeNumerically("<=", limit+replaced+probes(start)))

	// If three Jobs that were created before end while the others wait, all creation pauses, because they took none of them.
	s.Eventually(s.unfinishedJobs).Should(BeEmpty())
	before := s.jobsEver()
	s.Push(others)
	s.Eventually(s.jobsEver).WithTimeout(5 * time.Second).Should(BeNumerically(">=", before+others))
	s.Eventually(s.events).WithArguments(scaledjobv1.ReasonMessagesOrphaned).Should(BeNumerically(">=", 1))
}

// Where no finished Job is kept, only the status says that creation pauses, and until when.
func TestPauseSurvivesARestartWithoutAnyJob(t *testing.T) {
	t.Parallel()
	const messages, restarts = 5, 3
	s := newLonelyScaledJob(t)
	s.create(scene.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.TTLSecondsAfterFinished = new(int32(0))
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = new(int32(0)), new(int32(0))
	})
	s.Operator = s.operate()
	start := time.Now()
	s.Push(messages)
	s.Eventually(s.jobsEver).Should(Equal(messages))
	for restart := range restarts {
		s.Eventually(func() []*batchv1.Job {
			s.failAll() // Those that have replaced others or are probes as well.
			return s.jobs()
		}).Should(BeEmpty())
		s.expectLimit(scaledjobv1.ReasonJobsFailing)
		s.Eventually(s.Status).Should(HaveField("CreationPausedUntil", Not(BeNil())))
		before := s.Status().CreationPausedUntil
		s.Expect(s.Operator.Kill()).To(Succeed())
		s.Operator = s.operate()
		s.Eventually(s.Reconciles).Should(BeNumerically(">", 0))
		after, created := s.Status().CreationPausedUntil, s.jobsEver()
		if time.Now().Before(before.Time) {
			s.Expect(after).To(HaveValue(Equal(*before)))
		}
		// A probe whose status was not written before the end is not known afterwards.
		s.Expect(created).To(BeNumerically("<=", messages+replaced+probes(start)+restart))
		s.expectLimit(scaledjobv1.ReasonJobsFailing)
	}
}

// Without a message, Jobs for minReplicas that end at once are replaced ever less often, however messages are noticed.
func TestWorkersWithoutAMessagePauseCreation(t *testing.T) {
	t.Parallel()
	const minimum = 2
	for name, c := range scene.Rows(t, map[string]struct {
		mode  scaledjobv1.ScalingMode
		learn scene.Change
	}{
		"events":   {scaledjobv1.ModeEvents, scene.Polling(scene.Never)},
		"tracking": {scaledjobv1.ModeTracking, scene.Tracking},
		"polling": {scaledjobv1.ModePolling, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Notifications, spec.PollingIntervalSeconds = scaledjobv1.NotificationsDisabled, 1
		}},
	}, "tracking") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(c.learn, ending(cluster.PodSucceedAfter), scene.AtMost(0))
			s.Eventually(func() scaledjobv1.ScalingMode {
				s.Push(1) // The first change shows that the server reports changes.
				return s.Status().Mode
			}).Should(Equal(c.mode))
			s.empty()
			start := time.Now()
			s.Update(scene.AtMost(5*minimum), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = minimum })
			s.expectLimit(scaledjobv1.ReasonNoProgress)
			// The first Jobs do not count if the operator has not settled on its source of events before they are there.
			s.Expect(s.jobsEver()).To(BeNumerically("<=", 2*minimum+replaced))
			before := s.jobsEver()
			s.Eventually(s.jobsEver).Should(BeNumerically(">", before), "a probe")
			s.awaitResyncs()
			s.Expect(s.jobsEver()).To(BeNumerically("<=", 2*minimum+replaced+probes(start)))
			s.expectLimit(scaledjobv1.ReasonNoProgress)

			s.Update(running)
			s.expectNoLimit()
		})
	}
}

// As soon as workers do their work again, the number of Jobs doubles until all that are due are there.
func TestWorkersThatRecoverSoonWorkOffTheQueue(t *testing.T) {
	t.Parallel()
	const broken, messages = 3, 20
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), ending(cluster.PodFailAfter), running, scene.AtMost(broken))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	s.Push(messages)
	s.Eventually(s.jobsEver).Should(Equal(broken))
	for _, job := range s.jobs() {
		s.fail(job)
	}
	s.expectLimit(scaledjobv1.ReasonJobsFailing)
	s.Update(scene.AtMost(messages))
	s.startWorkers(1)
	s.Eventually(s.Depth).WithArguments(t.Context()).WithTimeout(30 * time.Second).Should(BeZero())
	s.expectNoLimit()
	s.Eventually(s.Status).Should(HaveField("CreationPausedUntil", BeNil()))
	s.Eventually(s.events).WithArguments("CreationResumed").Should(Equal(1))
}
