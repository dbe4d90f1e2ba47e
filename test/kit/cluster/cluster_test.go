// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

const timeout = 30 * time.Second

var control *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) (err error) {
	control, err = cluster.Start(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr})
	return err
}

func stop(context.Context) error { return control.Stop() }

func TestPodWaitsAsItsAnnotationsSay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newClient(t, control.Config())
	job := newJob(control.NewNamespace(t, "test"), nil)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: "pod", Finalizers: []string{"cluster.test/observed"},
			Annotations: map[string]string{cluster.PodReadyAfter: "1000h"},
		},
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
	g.Eventually(phase).WithTimeout(timeout).Should(Equal(corev1.PodFailed), "as a kubelet leaves it")

	change(func() { pod.Finalizers = nil })
	g.Eventually(func() bool {
		_, err := phase()
		return apierrors.IsNotFound(err)
	}).WithTimeout(timeout).Should(BeTrue())
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	return must.Get(client.New(config, client.Options{}))(NewWithT(t))
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

// conditions returns a function that reads the job and returns the types of its conditions that are true.
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
