// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

// replacing has unfinished Jobs replaced when the template is edited.
func replacing(spec *scaledjobv1.ScaledJobSpec) {
	spec.Rollout = scaledjobv1.Rollout{Strategy: scaledjobv1.RolloutImmediate}
}

func image(name string) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = name }
}

// images are those of the Jobs that have not finished and are not going.
func (s *scaledJob) images() []string {
	s.t.Helper()
	var images []string
	for _, job := range s.jobs() {
		if job.DeletionTimestamp == nil && len(job.Status.Conditions) == 0 {
			images = append(images, job.Spec.Template.Spec.Containers[0].Image)
		}
	}
	return images
}

// A Job that is to be replaced counts until its Pods are gone, if the user wants to wait for that.
func TestAnEditedTemplateReplacesJobsWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]scaledjobv1.PropagationPolicy{
		"Pods go afterwards": "", "Pods go first": scaledjobv1.PropagationForeground,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(sjtest.Polling(sjtest.Never), running, replacing, func(spec *scaledjobv1.ScaledJobSpec) {
				spec.Rollout.PropagationPolicy = policy
			})
			s.Push(3)
			s.Eventually(s.images).Should(HaveExactElements("none", "none", "none"))

			s.Update(image("other"))
			s.Eventually(s.images).Should(HaveExactElements("other", "other", "other"))
			s.Eventually(s.events).WithArguments("ReplacedJobs").Should(BeNumerically(">=", 1))
			s.Eventually(s.jobsEver).Should(Equal(6))
		})
	}
}

// uids are those of the Jobs of the namespace.
func (s *scaledJob) uids() (uids []types.UID) {
	s.t.Helper()
	for _, job := range s.jobs() {
		uids = append(uids, job.UID)
	}
	return uids
}

// unstarted has the Jobs replaced that have never had a ready Pod.
func unstarted(spec *scaledjobv1.ScaledJobSpec) {
	spec.Rollout = scaledjobv1.Rollout{Strategy: scaledjobv1.RolloutUnstarted}
}

// never keeps all Pods from becoming ready, as an image that can't be pulled does.
func never(spec *scaledjobv1.ScaledJobSpec) {
	spec.JobTemplate.Spec.Template.Annotations = map[string]string{cluster.PodReadyAfter: "24h"}
}

// ready is how many of its Pods are ready, as the status of the Job says.
func (s *scaledJob) ready(job *batchv1.Job) (int32, error) {
	var now batchv1.Job
	if err := s.API.Get(s.t.Context(), client.ObjectKeyFromObject(job), &now); err != nil || now.Status.Ready == nil {
		return 0, err
	}
	return *now.Status.Ready, nil
}

// The Pod of a Job becomes ready after the operator has decided to delete the Job, and before the API server does it.
func TestAJobThatStartsAtTheLastMomentStays(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never), never, unstarted)
	s.Push(2)
	s.Eventually(s.images).Should(HaveExactElements("none", "none"))
	late := s.job()
	s.Eventually(s.podsOf).WithArguments(late).Should(HaveLen(1))
	pod := s.podsOf(late)[0]
	hook, err := webhook.Start(t.Context(), s.API, s.Namespace, webhook.DeleteJob, func(review *admissionv1.AdmissionReview) (any, bool) {
		if review.Request.Name == late.Name && !*review.Request.DryRun {
			_ = cluster.Now(t.Context(), s.API, &pod, cluster.PodReadyAfter)
			_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
				ready, err := s.ready(late)
				return ready > 0, err
			})
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		return review, true
	})
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = hook.Stop(context.WithoutCancel(t.Context())) })
	s.Eventually(func() int {
		s.Expect(s.API.Delete(t.Context(), late.DeepCopy(), client.DryRunAll)).To(Succeed())
		return hook.Counts().Ended
	}).Should(BeNumerically(">", 0), "the API server asks the webhook")

	s.Update(func(spec *scaledjobv1.ScaledJobSpec) {
		image("other")(spec)
		running(spec)
	})
	s.Eventually(s.images).Should(ConsistOf("none", "other"))
	s.Eventually(s.Status).Should(HaveField("PendingJobs", BeEquivalentTo(0)))
	s.AwaitQuiet(quietPeriod)
	s.Expect(s.images()).To(ConsistOf("none", "other"))
	s.Expect(s.uids()).To(ContainElement(late.UID))
}

// forbid has an admission policy answer 403 to what is done with Jobs of the namespace, unless the expression is true.
func (s *scaledJob) forbid(operation registrationv1.OperationType, expression string) {
	s.t.Helper()
	rule := webhook.CreateJob
	rule.Operation = operation
	policy := must.Get(webhook.Forbid(s.t.Context(), s.API, s.Namespace, s.Namespace, rule, registrationv1.Validation{
		Expression: expression, Message: "not here", Reason: new(metav1.StatusReasonForbidden),
	}))(s)
	s.t.Cleanup(func() { _ = policy.Remove(context.WithoutCancel(s.t.Context())) })
}

// An admission webhook answers 403, and so do policies that say so: then none of the new Jobs can take the place of
// those that run.
func TestJobsStayWhereAPolicyForbidsThoseOfTheNewTemplate(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(sjtest.Never), running, replacing)
	s.Push(3)
	s.Eventually(s.images).Should(HaveExactElements("none", "none", "none"))
	s.forbid(registrationv1.Create, "object.spec.template.spec.containers[0].image != 'forbidden'")
	probe := s.job().DeepCopy()
	probe.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}
	probe.Spec.Selector, probe.Spec.Template.Labels = nil, nil
	probe.Spec.Template.Spec.Containers[0].Image = "forbidden"
	s.Eventually(func() error { return s.API.Create(t.Context(), probe.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(apierrors.IsForbidden, "IsForbidden"))

	s.Update(image("forbidden"))
	s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionFalse, scaledjobv1.ReasonRejected)
	s.Consistently(s.images).Should(HaveExactElements("none", "none", "none"))
}

// One Job that somebody protects must not keep all others from being deleted.
func TestAJobThatMayNotBeDeletedKeepsNoOtherFromBeingPruned(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(sjtest.Polling(1), sjtest.AtMost(1), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.SuccessfulJobsHistoryLimit = new(int32(0))
	})
	s.Push(1)
	kept := s.job()
	s.forbid(registrationv1.Delete, fmt.Sprintf("oldObject.metadata.name != '%s'", kept.Name))
	s.Eventually(func() error { return s.API.Delete(t.Context(), kept.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
	finished := func() []*batchv1.Job {
		return slices.DeleteFunc(s.jobs(), func(job *batchv1.Job) bool { return !hasFinished(job) })
	}
	s.succeed(kept)
	s.Eventually(finished).Should(HaveLen(1))
	for range 3 {
		s.Push(1)
		job := s.job()
		s.succeed(job)
		s.Eventually(s.unfinishedJobs).ShouldNot(ContainElement(HaveField("Name", job.Name)))
	}
	s.empty()
	s.Eventually(finished).Should(HaveExactElements(HaveField("Name", kept.Name)))
}
