// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
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
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// atOnce is how many objects are created at the same time.
const atOnce = 16

// An API server of Kubernetes has the same objects as the one that writes them on demand. It also has them in the binary
// form, with managed fields, and answers to writes as it does.
func TestMemoryBesideARealAPIServer(t *testing.T) {
	skip.UnderShort(t, "creates 50,000 Jobs; TestMemoryOfTheShippedBinary has an API server that writes them on demand")
	for name, attack := range map[string]struct{ usual, annotated, scaledJobs int }{
		"Jobs of others":   {usual: 50_000, annotated: 2000},
		"large ScaledJobs": {scaledJobs: 300},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			control, api, err := operator.StartCluster(t.Context(), cluster.Options{Log: os.Stderr})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(control.Stop()).To(Succeed()) })
			redis := redistest.New(t, redistest.Options{})
			tenant, neighbour := control.NewNamespace(t, "tenant-"), control.NewNamespace(t, "neighbour-")
			g.Expect(createAll(t, api, attack.usual, func(i int) client.Object { return usualJob(tenant, i) })).To(Succeed())
			g.Expect(createAll(t, api, attack.annotated, func(i int) client.Object { return annotatedJob(tenant, i) })).To(Succeed())
			g.Expect(createAll(t, api, attack.scaledJobs, func(i int) client.Object { return largeScaledJob(tenant, redis.Addr(), i+1) })).To(Succeed())
			small := largeScaledJob(neighbour, redis.Addr(), 0)
			g.Expect(api.Create(t.Context(), small)).To(Succeed())
			for i := range attack.scaledJobs + 1 {
				g.Expect(redis.Client().LPush(t.Context(), fmt.Sprint("sj-", i), 1, 2).Err()).To(Succeed())
			}
			path, err := programs.Shipped(t.Context(), nil)
			g.Expect(err).NotTo(HaveOccurred())

			running := operator.New(t, operator.Options{Cluster: control, Path: path, Timeout: timeout})

			jobs := func(of client.MatchingLabels) func(Gomega) int {
				return func(g Gomega) int {
					list := &metav1.PartialObjectMetadataList{}
					list.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
					g.Expect(api.List(t.Context(), list, of)).To(Succeed())
					return len(list.Items)
				}
			}
			g.Eventually(jobs(client.MatchingLabels{scaledjobv1.LabelScaledJob: "sj-0"})).Should(Equal(2))
			g.Expect(jobs(client.MatchingLabels{scaledjobv1.LabelManagedBy: scaledjobv1.ManagedBy})(g)).To(Equal(2), "the others are refused")
			t.Logf("%d MiB of %d MiB", peak(g, running.PID())/mib, limit/mib)
			g.Expect(peak(g, running.PID())).To(BeNumerically("<", limit))
			g.Expect(running.Logs()).To(ContainSubstring("filling a cache"))
		})
	}
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

// largeScaledJob has a template with a long string, nearly as long as etcd takes it, which is refused. The number 0 is small.
func largeScaledJob(namespace, redis string, number int) *scaledjobv1.ScaledJob {
	sj := &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("sj-", number)}}
	sj.Spec = scaledjobv1.ScaledJobSpec{
		QueueName: sj.Name, RedisAddress: redis, Threshold: 1, MaxReplicas: new(int32(5)),
	}
	template := `{"name":"worker","image":"worker:1"}`
	if number > 0 {
		template = strings.TrimSuffix(template, "}") + `,"args":["` + text(number, 1300*kib) + `"]}`
	}
	if err := json.Unmarshal([]byte(`{"spec":{"template":{"spec":{"containers":[`+template+`]}}}}`), &sj.Spec.JobTemplate); err != nil {
		panic(err)
	}
	return sj
}
