// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

// forbid has an admission policy answer 403 to what is done with Jobs of the namespace, unless the expression is true.
func (s *scaledJob) forbid(operation admissionv1.OperationType, expression string) {
	s.t.Helper()
	rule := webhook.CreateJob
	rule.Operation = operation
	policy, err := webhook.Forbid(s.t.Context(), s.API, s.Namespace, s.Namespace, rule, admissionv1.Validation{
		Expression: expression, Message: "not here", Reason: new(metav1.StatusReasonForbidden),
	})
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { _ = policy.Remove(context.WithoutCancel(s.t.Context())) })
}

// An admission webhook answers 403, and so do policies that say so: then none of the new Jobs can take the place of
// those that run.
func TestJobsStayWhereAPolicyForbidsThoseOfTheNewTemplate(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), running, replacing)
	s.Push(3)
	s.Eventually(s.images).Should(HaveExactElements("none", "none", "none"))
	s.forbid(admissionv1.Create, "object.spec.template.spec.containers[0].image != 'forbidden'")
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

// With maxReplicas 0 no Job is created, and Jobs that run go on.
func TestNoJobIsReplacedWhereNoneMayBeCreated(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), running, replacing)
	s.Push(3)
	s.Eventually(s.images).Should(HaveExactElements("none", "none", "none"))
	s.Update(scene.AtMost(0))
	s.expectCondition(scaledjobv1.ConditionScalingLimited, metav1.ConditionTrue, scaledjobv1.ReasonAtMaxReplicas)

	s.Update(image("other"))
	s.expectCondition(scaledjobv1.ConditionTemplateValid, metav1.ConditionTrue, scaledjobv1.ReasonAccepted)
	s.Consistently(s.images).Should(HaveExactElements("none", "none", "none"))
}

// One Job that somebody protects must not keep all others from being deleted.
func TestAJobThatMayNotBeDeletedKeepsNoOtherFromBeingPruned(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(1), scene.AtMost(1), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.SuccessfulJobsHistoryLimit = new(int32(0))
	})
	s.Push(1)
	kept := s.job()
	s.forbid(admissionv1.Delete, fmt.Sprintf("oldObject.metadata.name != '%s'", kept.Name))
	s.Eventually(func() error { return s.API.Delete(t.Context(), kept.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
	finished := func() (names []string) {
		for _, job := range s.jobs() {
			if hasFinished(job) {
				names = append(names, job.Name)
			}
		}
		return names
	}
	s.succeed(kept)
	s.Eventually(finished).Should(HaveLen(1))
	unfinished := func() (names []string) {
		for _, job := range s.jobs() {
			if !hasFinished(job) {
				names = append(names, job.Name)
			}
		}
		return names
	}
	for range 3 {
		s.Push(1)
		job := s.job()
		s.succeed(job)
		s.Eventually(unfinished).ShouldNot(ContainElement(job.Name))
	}
	s.empty()
	s.Eventually(finished).Should(HaveExactElements(kept.Name))
}

// replacingOlder returns a cluster with an operator and a ScaledJob named worker, which replaces Jobs of an earlier
// template, and the UIDs of its three Jobs.
func replacingOlder(t *testing.T) (s *olderCluster, first []types.UID) {
	t.Helper()
	s = newOlderCluster(t)
	s.installSchema()
	s.startOperator()
	s.create("worker", func(object map[string]any) {
		s.Expect(unstructured.SetNestedField(object, "Immediate", "spec", "rollout", "strategy")).To(Succeed())
	})
	s.expectJobs("worker", 3)
	s.awaitReconciles("worker")
	return s, s.uids("worker")
}
