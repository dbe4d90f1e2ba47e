// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// atOnce is how many objects are created at the same time.
const atOnce = 16

// An API server of Kubernetes has the same Jobs as the one that writes them on demand. It also has them in the binary
// form, with managed fields, and answers to writes as it does.
func TestMemoryBesideARealAPIServer(t *testing.T) {
	skip.UnderShort(t, "creates 12,000 Jobs; TestMemoryOfTheShippedBinary has an API server that writes them on demand")
	const usual, annotated = 10_000, 2000
	g := NewWithT(t)
	control, api, err := operator.StartCluster(t.Context(), cluster.Options{Log: os.Stderr})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(control.Stop()).To(Succeed()) })
	redis := redistest.New(t, redistest.Options{})
	tenant, neighbour := control.NewNamespace(t, "tenant"), control.NewNamespace(t, "neighbour")
	g.Expect(createAll(t, api, usual, func(i int) client.Object { return usualJob(tenant, i) })).To(Succeed())
	g.Expect(createAll(t, api, annotated, func(i int) client.Object { return annotatedJob(tenant, i) })).To(Succeed())
	small := &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: neighbour, Name: "small"},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName: "small", RedisAddress: redis.Addr(), Threshold: 1, JobTemplate: &batchv1.JobTemplateSpec{Spec: usualJob("", 0).Spec},
		},
	}
	g.Expect(api.Create(t.Context(), small)).To(Succeed())
	g.Expect(redis.Client().LPush(t.Context(), "small", 1, 2).Err()).To(Succeed())

	running := startShipped(t, operator.Options{Cluster: control})

	g.Eventually(func(g Gomega) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
		g.Expect(api.List(t.Context(), list, client.InNamespace(neighbour))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(2))
	}).Should(Succeed())
	expectWithinLimit(t, running)
	g.Expect(running.Logs()).To(ContainSubstring("filling a cache"))
}

// createAll creates this number of objects.
func createAll(t *testing.T, api client.Client, count int, object func(number int) client.Object) error {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range count {
		group.Go(func() error { return api.Create(t.Context(), object(i)) })
	}
	return group.Wait()
}

func usualJob(namespace string, number int) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("report-%08d", number), Labels: map[string]string{"app": "report"}},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "report", Image: "registry.example/report:1", Env: []corev1.EnvVar{{Name: "A", Value: "B"}},
			}},
		}}},
	}
}

func annotatedJob(namespace string, number int) *batchv1.Job {
	job := usualJob(namespace, number)
	job.Name, job.Annotations = fmt.Sprintf("note-%08d", number), map[string]string{"note": text(number, 200*kib)}
	return job
}
