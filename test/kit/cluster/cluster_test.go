// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

const timeout = 30 * time.Second

var control *cluster.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		playParent()
	}
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) (err error) {
	control, err = cluster.Start(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr})
	return err
}

func stop(context.Context) error {
	if control == nil {
		return nil
	}
	return control.Stop()
}

func TestJobSucceeds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(newNamespace(t), map[string]string{cluster.PodSucceedAfter: "50ms"})
	g.Expect(c.Create(t.Context(), job)).To(Succeed())

	g.Eventually(conditions(t, c, job)).WithTimeout(timeout).Should(ContainElement(batchv1.JobComplete))
	g.Expect(job.Status.Succeeded).To(BeEquivalentTo(1))
}

func TestJobFails(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(newNamespace(t), map[string]string{cluster.PodFailAfter: "0s"})
	g.Expect(c.Create(t.Context(), job)).To(Succeed())

	g.Eventually(conditions(t, c, job)).WithTimeout(timeout).Should(ContainElement(batchv1.JobFailed))
}

func TestPodRunsUntilToldToSucceed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(newNamespace(t), nil)
	g.Expect(c.Create(t.Context(), job)).To(Succeed())

	var pod corev1.Pod
	g.Eventually(func(g Gomega) {
		pods := podsOf(t, g, c, job)
		g.Expect(pods).To(HaveLen(1))
		pod = pods[0]
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	}).WithTimeout(timeout).Should(Succeed())
	g.Expect(pod.Spec.NodeName).To(Equal(cluster.FakeNode))

	patch := client.MergeFrom(pod.DeepCopy())
	pod.Annotations = map[string]string{cluster.PodSucceedAfter: "0s"}
	g.Expect(c.Patch(t.Context(), &pod, patch)).To(Succeed())
	g.Eventually(conditions(t, c, job)).WithTimeout(timeout).Should(ContainElement(batchv1.JobComplete))
}

func TestPodWaitsAsItsAnnotationsSay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(newNamespace(t), nil)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "pod", Finalizers: []string{"cluster.test/observed"}, Annotations: map[string]string{
			cluster.PodReadyAfter:     "1000h",
			cluster.PodTerminateAfter: "1000h",
		}},
		Spec: job.Spec.Template.Spec,
	}
	g.Expect(c.Create(t.Context(), pod)).To(Succeed())
	phase := func() (corev1.PodPhase, error) {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		return pod.Status.Phase, err
	}
	change := func(apply func()) {
		patch := client.MergeFrom(pod.DeepCopy())
		apply()
		g.Expect(c.Patch(t.Context(), pod, patch)).To(Succeed())
	}
	g.Expect(phase()).To(Equal(corev1.PodPending))

	change(func() { pod.Annotations[cluster.PodReadyAfter] = "0s" })
	g.Eventually(phase).WithTimeout(timeout).Should(Equal(corev1.PodRunning))

	g.Expect(c.Delete(t.Context(), pod)).To(Succeed())
	g.Expect(phase()).To(Equal(corev1.PodRunning))

	change(func() { pod.Annotations[cluster.PodTerminateAfter] = "0s" })
	g.Eventually(phase).WithTimeout(timeout).Should(Equal(corev1.PodFailed), "as a kubelet leaves it")

	change(func() { pod.Finalizers = nil })
	g.Eventually(func() bool {
		_, err := phase()
		return apierrors.IsNotFound(err)
	}).WithTimeout(timeout).Should(BeTrue())
}

func TestPodForAnotherSchedulerStaysPending(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(newNamespace(t), nil)
	job.Spec.Template.Spec.SchedulerName = "none"
	g.Expect(c.Create(t.Context(), job)).To(Succeed())

	g.Eventually(func(g Gomega) {
		pods := podsOf(t, g, c, job)
		g.Expect(pods).To(HaveLen(1))
		g.Expect(pods[0].Spec.NodeName).To(BeEmpty())
		g.Expect(pods[0].Status.Phase).To(Equal(corev1.PodPending))
	}).WithTimeout(timeout).Should(Succeed())
}

func TestDeletedJobTakesItsPodAlong(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(newNamespace(t), nil)
	g.Expect(c.Create(t.Context(), job)).To(Succeed())
	g.Eventually(func(g Gomega) { g.Expect(podsOf(t, g, c, job)).To(HaveLen(1)) }).WithTimeout(timeout).Should(Succeed())

	g.Expect(c.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	g.Eventually(func(g Gomega) { g.Expect(podsOf(t, g, c, job)).To(BeEmpty()) }).WithTimeout(timeout).Should(Succeed())
}

func TestDependentIsCollectedWithItsOwner(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	namespace := newNamespace(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	g.Expect(c.Create(t.Context(), owner)).To(Succeed())
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "dependent", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}}}
	g.Expect(c.Create(t.Context(), dependent)).To(Succeed())

	g.Expect(c.Delete(t.Context(), owner)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(dependent), dependent))
	}).WithTimeout(timeout).Should(BeTrue())
}

func TestServiceAccountMayDoWhatItIsGranted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := newNamespace(t)
	config, err := control.ServiceAccountConfig(t.Context(), namespace, "default")
	g.Expect(err).NotTo(HaveOccurred())
	c := newClient(t, config)
	list := func() error { return c.List(t.Context(), &batchv1.JobList{}, client.InNamespace(namespace)) }
	g.Expect(list()).To(MatchError(apierrors.IsForbidden, "IsForbidden"))

	g.Expect(control.Apply(t.Context(), strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: `+namespace+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: default, namespace: `+namespace+`}]
`))).To(Succeed())
	g.Eventually(list).WithTimeout(timeout).Should(Succeed())
}

func TestKubeconfigIsForTheSameCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	namespace := newNamespace(t)
	g.Expect(newClient(t, config).Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})).To(Succeed())
}

func TestConfigIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	control.Config().Host = "elsewhere"
	g.Expect(control.Config().Host).NotTo(Equal("elsewhere"))
}

// newNamespace returns a namespace that is deleted after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	name, err := control.CreateNamespace(t.Context(), "test")
	g.Expect(err).NotTo(HaveOccurred())
	c := newClient(t, control.Config())
	t.Cleanup(func() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Expect(c.Delete(context.WithoutCancel(t.Context()), namespace)).To(Succeed())
	})
	return name
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c
}

// newJob returns a Job of one Pod with the annotations.
func newJob(namespace string, annotations map[string]string) *batchv1.Job {
	backoffLimit := int32(0)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"},
		Spec: batchv1.JobSpec{
			BackoffLimit: &backoffLimit,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "worker", Image: "worker"}},
				},
			},
		},
	}
}

// conditions returns a function that reads the job and returns the types of its
// conditions that are true.
func conditions(t *testing.T, c client.Client, job *batchv1.Job) func(g Gomega) []batchv1.JobConditionType {
	t.Helper()
	return func(g Gomega) []batchv1.JobConditionType {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(job), job)).To(Succeed())
		var types []batchv1.JobConditionType
		for _, condition := range job.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				types = append(types, condition.Type)
			}
		}
		return types
	}
}

// podsOf returns the Pods in the namespace of a Job.
func podsOf(t *testing.T, g Gomega, c client.Client, job *batchv1.Job) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	g.Expect(c.List(t.Context(), &pods, client.InNamespace(job.Namespace))).To(Succeed())
	return pods.Items
}
