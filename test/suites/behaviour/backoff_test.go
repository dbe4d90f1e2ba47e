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
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// ending lets every Pod end at once, in the way that the annotation says.
func ending(annotation string) scene.Change {
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
			s.create(scene.Polling(1), ending(outcome))
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
func TestJobsThatTakeMessagesDoNotPauseCreation(t *testing.T) {
	t.Parallel()
	const limit, rounds = 3, 8
	for name, pushed := range map[string]int{"falling": 0, "growing": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(scene.Polling(scene.Never), scene.AtMost(limit))
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

func TestPauseEndsOnceSuspensionIsLifted(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), ending(cluster.PodFailAfter))
	s.awaitSubscription()
	s.Push(3)
	s.expectLimit(scaledjobv1.ReasonJobsFailing)
	suspend := func(suspended bool) scene.Change {
		return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = suspended }
	}
	s.Update(suspend(true))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonSuspended)
	before := s.jobsEver()
	s.Update(suspend(false))
	s.Eventually(s.jobsEver).Should(BeNumerically(">=", before+3))
}

func TestPauseSurvivesARestartOfTheOperator(t *testing.T) {
	t.Parallel()
	s := newLonelyScaledJob(t)
	s.create(scene.Polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 3 })
	s.Operator = s.operate()
	start := time.Now()
	for range 5 {
		s.Eventually(s.jobsEver).Should(BeNumerically(">=", 3))
		s.failAll()
		s.expectLimit(scaledjobv1.ReasonJobsFailing)
		s.Expect(s.Operator.Kill()).To(Succeed())
		s.Operator = s.operate()
		s.Eventually(s.Reconciles).Should(BeNumerically(">", 0))
		s.Expect(s.jobsEver()).To(BeNumerically("<=", 3+replaced+probes(start)))
	}
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
