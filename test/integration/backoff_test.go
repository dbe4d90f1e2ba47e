// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/cluster"
)

// ending lets every Pod end at once, in the way that the annotation says.
func ending(annotation string) func(*scaledjobv1.ScaledJobSpec) {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.BackoffLimit = new(int32(0))
		spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "Never"
		spec.JobTemplate.Spec.Template.Annotations = map[string]string{annotation: "0s"}
	}
}

// running lets Pods run until a test ends them.
func running(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Template.Annotations = nil }

// attempts is how often creating may have gone on after so long, if it pauses for 10 s, 20 s, 40 s and so on.
func attempts(since time.Time) int {
	count := 1
	for pause := 10 * time.Second; time.Since(since) > pause; pause = 2*pause + 10*time.Second {
		count++
	}
	return count
}

// replaced is how many Jobs may be replaced before there are three in a row.
const replaced = 2

func (s *scene) expectLimit(reason string) {
	s.t.Helper()
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, reason)
}

func (s *scene) expectNoLimit() {
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
			s := newScene(t)
			s.create(polling(1), ending(outcome))
			s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
			start := time.Now()
			s.push(messages)
			s.expectLimit(reason)
			s.awaitResyncs()
			s.Expect(s.jobsEver()).To(BeNumerically("<=", messages*attempts(start)+replaced))
			s.Expect(s.condition(scaledjobv1.ConditionReady)).To(HavePrefix("True"), "it is no fault of the ScaledJob")
			s.Eventually(s.events).WithArguments(reason).Should(Equal(1))
			s.Expect(s.series()).To(HaveKeyWithValue("scaledjob_creation_pausing", 1.0))

			s.update(running)
			s.expectNoLimit()
			s.Eventually(s.events).WithArguments("CreationResumed").Should(Equal(1))
			s.Eventually(s.status).Should(HaveField("ActiveJobs", BeEquivalentTo(messages)))
		})
	}
}

// The negative control: where each Job takes a message, Jobs that end are replaced without a pause.
func TestJobsThatTakeMessagesDoNotPauseCreation(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(polling(never), atMost(3))
	s.awaitSubscription()
	const messages = 12
	s.push(messages)
	for range messages {
		job := s.job()
		s.Expect(s.redis.Client().RPop(t.Context(), s.queue).Err()).To(Succeed())
		s.succeed(job)
	}
	s.expectJobsEver(messages)
	s.Expect(s.events(scaledjobv1.ReasonNoProgress)).To(BeZero())
}

// Nor do they if more messages come than are taken, so that the depth never falls: that some are taken is heard.
func TestJobsOfAGrowingQueueDoNotPauseCreation(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(polling(never), atMost(3))
	s.expectCondition(scaledjobv1.ConditionNotificationsActive, metav1.ConditionTrue, scaledjobv1.ReasonSubscribed)
	s.push(3)
	const rounds = 8
	for range rounds {
		job := s.job()
		s.push(2)
		s.Expect(s.redis.Client().RPop(t.Context(), s.queue).Err()).To(Succeed())
		s.succeed(job)
	}
	s.expectJobsEver(rounds + 3)
	s.Expect(s.events(scaledjobv1.ReasonNoProgress)).To(BeZero())
}

func TestPauseEndsOnceSuspensionIsLifted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(polling(never), ending(cluster.PodFailAfter))
	s.awaitSubscription()
	s.push(3)
	s.expectLimit(scaledjobv1.ReasonJobsFailing)
	suspend := func(suspended bool) func(*scaledjobv1.ScaledJobSpec) {
		return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = suspended }
	}
	s.update(suspend(true))
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionTrue, scaledjobv1.ReasonSuspended)
	before := s.jobsEver()
	s.update(suspend(false))
	s.Eventually(s.jobsEver).Should(BeNumerically(">=", before+3))
}

func TestPauseSurvivesARestartOfTheOperator(t *testing.T) {
	t.Parallel()
	s := newLonelyScene(t)
	s.create(polling(1), func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = 3 })
	s.operator = s.operate()
	start := time.Now()
	for range 5 {
		s.Eventually(s.jobsEver).Should(BeNumerically(">=", 3))
		s.failAll()
		s.expectLimit(scaledjobv1.ReasonJobsFailing)
		s.Expect(s.operator.Kill()).To(Succeed())
		s.operator = s.operate()
		s.Eventually(s.passes).Should(BeNumerically(">", 0))
		s.Expect(s.jobsEver()).To(BeNumerically("<=", 3*attempts(start)+replaced))
	}
}

// failAll has all Jobs fail, where nobody else sees to their status.
func (s *scene) failAll() {
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
		s.Expect(s.plane.admin.Status().Patch(s.t.Context(), failed, client.MergeFrom(job))).To(Succeed())
	}
}
