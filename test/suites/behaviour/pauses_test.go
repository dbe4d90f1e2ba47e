// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// ending lets every Pod end at once, in the way that the annotation says.
func ending(annotation string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.BackoffLimit = new(int32(0))
		spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "Never"
		spec.JobTemplate.Spec.Template.Annotations = map[string]string{annotation: "0s"}
	}
}

// running lets Pods run until a test ends them.
func running(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Template.Annotations = nil }

// probes is how many Jobs a pause may have let be created since then: four, one more, and one every 30 seconds.
func probes(since time.Time) int { return 5 + int(time.Since(since)/(30*time.Second)) }

// replaced is how many Jobs may be replaced before there are three in a row.
const replaced = 2

func (s *scaledJob) expectLimit(reason string) {
	s.t.Helper()
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, reason)
}

func (s *scaledJob) expectNoLimit() {
	s.t.Helper()
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionFalse, scaledjobv1.ReasonNotLimited)
}

func TestJobsThatComeToNothingPauseCreationUntilTheTemplateIsCorrected(t *testing.T) {
	t.Parallel()
	const messages = 5
	for reason, outcome := range map[string]string{
		scaledjobv1.ReasonJobsFailing: cluster.PodFailAfter,
		scaledjobv1.ReasonNoProgress:  cluster.PodSucceedAfter,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(sjtest.Polling(1), ending(outcome))
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
			start := time.Now()
			s.Push(messages)
			s.expectLimit(reason)
			s.awaitResyncs()
			s.Expect(s.jobsEver()).To(BeNumerically("<=", messages+replaced+probes(start)))
			s.Expect(s.condition(scaledjobv1.ConditionReady)).To(HavePrefix("True"), "it is no fault of the ScaledJob")
			s.Eventually(s.events).WithArguments(reason).Should(Equal(1))
			s.Expect(s.series()).To(HaveKeyWithValue("scaledjob_creation_pausing", 1.0))
			s.Eventually(s.Status).Should(HaveField("CreationPausedUntil", Not(BeNil())))

			s.Update(running)
			s.expectNoLimit()
			s.Eventually(s.events).WithArguments("CreationResumed").Should(Equal(1))
			s.Eventually(s.Status).Should(HaveField("ActiveJobs", BeEquivalentTo(messages)))
		})
	}
}

// The negative control: where Jobs take messages, those that end are replaced without a pause. It makes no difference
// whether the depth falls, or more messages come than are taken: that some are taken is heard.
func TestControlJobsThatTakeMessages(t *testing.T) {
	t.Parallel()
	const limit, rounds = 3, 8
	for name, pushed := range map[string]int{"falling": 0, "growing": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(sjtest.Polling(sjtest.Never), sjtest.AtMost(limit))
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
			s.Push(limit + rounds)
			ended := map[types.UID]bool{}
			for round := range rounds {
				s.Eventually(s.jobsEver).Should(Equal(limit + round))
				job := s.jobBut(ended)
				s.Push(pushed)
				s.Expect(s.redis.Client().RPop(t.Context(), s.Queue).Err()).To(Succeed())
				s.succeed(job)
				ended[job.UID] = true
			}
			s.expectJobsEver(limit + rounds)
			s.Expect(s.events(scaledjobv1.ReasonNoProgress)).To(BeZero())
		})
	}
}

// jobBut is a Job that has not ended. That some have may not have been seen yet.
func (s *scaledJob) jobBut(ended map[types.UID]bool) *batchv1.Job {
	s.t.Helper()
	left := slices.DeleteFunc(s.jobs(), func(job *batchv1.Job) bool { return ended[job.UID] })
	s.Expect(left).NotTo(BeEmpty())
	return left[0]
}

// failAll has all Jobs fail, where nobody else sees to their status.
func (s *scaledJob) failAll() {
	s.t.Helper()
	now := metav1.Now()
	for _, job := range s.jobs() {
		if hasFinished(job) {
			continue
		}
		failed := job.DeepCopy()
		failed.Status.StartTime = &now
		for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			failed.Status.Conditions = append(failed.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
			})
		}
		err := s.API.Status().Patch(s.t.Context(), failed, client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // It may have failed, and be gone, already.
			s.Expect(err).NotTo(HaveOccurred())
		}
	}
}

// Where no finished Job is kept, only the status says that creation pauses, and until when.
func TestPauseSurvivesARestartWithoutAnyJob(t *testing.T) {
	t.Parallel()
	const messages, restarts = 5, 3
	s := newScaledJobWithoutOperator(t)
	s.create(sjtest.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) {
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
	for name, c := range skip.AllBut(t, map[string]struct {
		mode  scaledjobv1.ScalingMode
		learn sjtest.Change
	}{
		"events":   {scaledjobv1.ModeEvents, sjtest.Polling(sjtest.Never)},
		"tracking": {scaledjobv1.ModeTracking, sjtest.Tracking},
		"polling": {scaledjobv1.ModePolling, func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Notifications, spec.PollingIntervalSeconds = scaledjobv1.NotificationsDisabled, 1
		}},
	}, "tracking") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(c.learn, ending(cluster.PodSucceedAfter), sjtest.AtMost(0))
			s.Eventually(func() scaledjobv1.ScalingMode {
				s.Push(1) // The first change shows that the server reports changes.
				return s.Status().Mode
			}).Should(Equal(c.mode))
			s.empty()
			start := time.Now()
			s.Update(sjtest.AtMost(5*minimum), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = minimum })
			s.expectLimit(scaledjobv1.ReasonNoProgress)
			// The first Jobs do not count if the operator has not settled on its source of events before they are
			// there.
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
