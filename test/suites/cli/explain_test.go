// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
)

// newJob creates a Job of the ScaledJob, as the operator would.
func newJob(t *testing.T, sj *scaledjobv1.ScaledJob, name string) *batchv1.Job {
	t.Helper()
	labels := map[string]string{scaledjobv1.LabelScaledJob: sj.Name}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sj.Namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: scaledjobv1.GroupVersion.String(), Kind: "ScaledJob", Name: sj.Name, UID: sj.UID, Controller: new(true),
			}},
		},
		Spec: sj.Spec.JobTemplate.Spec,
	}
	job.Spec.Template.Labels = labels
	NewWithT(t).Expect(admin.Create(t.Context(), job)).To(Succeed())
	return job
}

// explained is the explanation for programs.
func explained(t *testing.T, g Gomega, args ...string) explain.Explanation {
	t.Helper()
	is := run(t, append([]string{"explain", "-o", "json"}, args...)...)
	g.Expect(is.code).To(BeZero(), is.errOut)
	var explanation explain.Explanation
	g.Expect(json.Unmarshal([]byte(is.out), &explanation)).To(Succeed())
	return explanation
}

func TestExplainCountsTheJobsAndNamesWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "cli")
	emails := newScaledJob(t, namespace, "emails", "{maxReplicas: 20}", healthy)
	newJob(t, emails, "emails-1")

	// There is no node, and no kubelet: the test says what they would say of the Pod.
	var pods corev1.PodList
	g.Eventually(func(g Gomega) {
		g.Expect(admin.List(t.Context(), &pods, client.InNamespace(namespace))).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
	}).Should(Succeed())
	pod := &pods.Items[0]
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  "worker",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}},
	}}
	g.Expect(admin.Status().Update(t.Context(), pod)).To(Succeed())

	is := run(t, "explain", "emails", "-n", namespace)
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(is.out).To(And(
		ContainSubstring("1 Job is active and 5 desired, for 47 messages outstanding"),
		ContainSubstring("1 active: 0 with a ready Pod, 1 pending"),
		ContainSubstring("1 Job: ErrImagePull: Container worker: no such image"),
		ContainSubstring("ceil(47 / 10) = 5"),
		ContainSubstring("One more Job is desired with 4 more messages, at 51 outstanding."),
		Not(ContainSubstring("could not be read")),
	))
	explanation := explained(t, g, "emails", "-n", namespace)
	g.Expect(explanation.APIVersion).To(Equal("cli.batch.miracle.dev/v1"))
	g.Expect(explanation.Jobs.Active).To(Equal(1))
	g.Expect(explanation.Desired).To(HaveValue(BeEquivalentTo(5)))
}

func TestExplainFindsTheQuotaThatKeepsPodsAway(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "cli")
	g.Expect(admin.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "no-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	})).To(Succeed())
	emails := newScaledJob(t, namespace, "emails", "{}", healthy)
	newJob(t, emails, "emails-1")
	g.Eventually(func(g Gomega) {
		g.Expect(explained(t, g, "emails", "-n", namespace).Jobs.Waiting).To(ContainElements(
			And(HaveField("Reason", "FailedCreate"), HaveField("Message", ContainSubstring("no-pods"))),
			And(HaveField("Reason", "QuotaUsedUp"), HaveField("Message", "ResourceQuota no-pods: 0 of 0 pods are used.")),
		))
	}).Should(Succeed())
}

// Who may see ScaledJobs only gets an explanation from the status that lists what is missing.
func TestExplainSaysWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	g, namespace := NewWithT(t), newEmails(t, "{}")
	viewer := newUser(t, namespace, "scaledjob-operator-scaledjob-viewer")
	g.Eventually(func() int { return run(t, "explain", "emails", "-n", namespace, viewer).code }).Should(BeZero())
	explanation := explained(t, g, "emails", "-n", namespace, viewer)
	g.Expect(explanation.Unreadable).To(HaveExactElements(
		HavePrefix("You may not list Jobs"), HavePrefix("You may not list Pods"), HavePrefix("You may not list quotas"),
		HavePrefix("You may not list events"),
	))
	g.Expect(explanation.Jobs.Source).To(Equal("status"))
	g.Expect(explanation.Jobs.Active).To(Equal(5))
	g.Expect(explanation.Arithmetic).To(ContainElement("ceil(47 / 10) = 5"))
}
