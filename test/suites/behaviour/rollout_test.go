// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// replacing has unfinished Jobs replaced when the template is edited.
func replacing(spec *scaledjobv1.ScaledJobSpec) {
	spec.Rollout = scaledjobv1.Rollout{Strategy: scaledjobv1.RolloutImmediate}
}

func image(name string) scene.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = name }
}

// images are those of the Jobs that have not finished and are not going.
func (s *scaledJob) images() []string {
	s.t.Helper()
	var all batchv1.JobList
	s.Expect(s.API.List(s.t.Context(), &all, client.InNamespace(s.Namespace))).To(Succeed())
	var images []string
	for _, job := range all.Items {
		if job.DeletionTimestamp == nil && len(job.Status.Conditions) == 0 {
			images = append(images, job.Spec.Template.Spec.Containers[0].Image)
		}
	}
	return images
}

func TestAnEditedTemplateReplacesJobsWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), running, replacing)
	s.Push(3)
	s.Eventually(s.images).Should(HaveExactElements("none", "none", "none"))

	s.Update(image("other"))
	s.Eventually(s.images).Should(HaveExactElements("other", "other", "other"))
	s.Eventually(s.events).WithArguments("ReplacedJobs").Should(BeNumerically(">=", 1))
	s.Eventually(s.jobsEver).Should(Equal(6))
}

// A Job that is to be replaced counts until its Pods are gone, if the user wants to wait for that.
func TestReplacedJobsMayGoWithTheirPodsFirst(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), running, replacing, func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Rollout.PropagationPolicy = scaledjobv1.PropagationForeground
	})
	s.Push(2)
	s.Eventually(s.images).Should(HaveExactElements("none", "none"))
	s.Update(image("other"))
	s.Eventually(s.images).Should(HaveExactElements("other", "other"))
	s.Eventually(s.jobsEver).Should(Equal(4))
}

// A template that the API server takes for no Job must not cost the Jobs that run.
func TestATemplateThatIsRejectedReplacesNothing(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(scene.Polling(scene.Never), running, replacing)
	s.Push(2)
	s.Eventually(s.images).Should(HaveExactElements("none", "none"))
	s.Update(func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Spec.Containers[0].Name = "not a name"
	})
	s.expectCondition(scaledjobv1.ConditionReady, metav1.ConditionFalse, scaledjobv1.ReasonRejected)
	s.Expect(s.images()).To(HaveExactElements("none", "none"))

	s.Update(func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Spec.Containers[0].Name = "name"
		image("other")(spec)
	})
	s.Eventually(s.images).Should(HaveExactElements("other", "other"))
}

// What the CRD has as a default is put into objects when they are read. A later version may have more of them than the
// one under which an object was stored, so its template reads otherwise though nobody has edited it.
func TestADefaultThatTheCRDGainsReplacesNothing(t *testing.T) {
	t.Parallel()
	s, first := replacingOlder(t)
	maximum := int64(10)
	editMaximum := func() {
		maximum++
		s.patch("worker", fmt.Sprintf(`{"spec":{"maxReplicas":%d}}`, maximum))
	}
	unchanged := func(when string) {
		t.Helper()
		s.awaitReconciles("worker")
		s.Expect(s.uids("worker")).To(ConsistOf(first), when)
	}

	editMaximum()
	unchanged("another maximum")
	s.gainDefault("ttlSecondsAfterFinished", "3600")
	unchanged("a default")
	editMaximum()
	unchanged("a default, and then another maximum")

	s.gainDefault("activeDeadlineSeconds", "7200")
	editMaximum()
	unchanged("a default that is seen with another maximum for the first time")

	s.gainDefault("backoffLimit", "3")
	s.Expect(s.operator.Stop(t.Context())).To(Succeed())
	s.startOperator()
	unchanged("a default, and a restart")
	editMaximum()
	unchanged("a default, a restart, and then another maximum")

	s.Expect(s.operator.Stop(t.Context())).To(Succeed())
	s.gainDefault("parallelism", "1")
	editMaximum()
	editMaximum()
	s.startOperator()
	unchanged("a default and another maximum while the operator was away")

	s.patch("worker", `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"worker","image":"other"}]}}}}}}`)
	s.Eventually(func() []types.UID { return s.uids("worker") }).Should(And(HaveLen(3), Not(ContainElement(BeElementOf(first)))))
}

// Earlier versions of the CRD stored the protocol of a port. To apply the manifest again removes it.
func TestADefaultThatTheCRDHasLostReplacesNothing(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	port := func(protocol corev1.Protocol) scene.Change {
		return func(spec *scaledjobv1.ScaledJobSpec) {
			spec.JobTemplate.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, Protocol: protocol}}
		}
	}
	s.create(scene.Polling(scene.Never), running, replacing, port(corev1.ProtocolTCP))
	s.Push(2)
	s.Eventually(s.images).Should(HaveLen(2))
	s.Update(port(""))
	s.Eventually(func() bool { return s.Status().ObservedGeneration == s.Get().Generation }).Should(BeTrue())
	s.AwaitQuiet(quietPeriod)
	s.Expect(s.jobsEver()).To(Equal(2))

	s.Update(port(corev1.ProtocolUDP))
	s.Eventually(s.jobsEver).Should(Equal(4))
}

// gainDefault gives a field of the template's spec a default, and returns when objects are read with it.
func (s *olderCluster) gainDefault(field, value string) {
	s.t.Helper()
	const version = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/jobTemplate/properties/spec/properties/"
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName("scaledjobs.batch.miracle.dev")
	patch := fmt.Sprintf(`[{"op":"add","path":"%s%s/default","value":%s}]`, version, field, value)
	s.Expect(s.admin.Patch(s.t.Context(), crd, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
	s.Eventually(func() (string, error) {
		object := olderObject("worker")
		err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)
		read, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "jobTemplate", "spec", field)
		return fmt.Sprint(read), err
	}).Should(Equal(value), field)
}

// patch changes a ScaledJob as kubectl patch does.
func (s *olderCluster) patch(name, change string) {
	s.t.Helper()
	s.Expect(s.admin.Patch(s.t.Context(), olderObject(name), client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
}

// uids are those of the Jobs of a ScaledJob.
func (s *olderCluster) uids(name string) []types.UID {
	s.t.Helper()
	var uids []types.UID
	for _, job := range s.jobsOf(name) {
		uids = append(uids, job.GetUID())
	}
	return uids
}
