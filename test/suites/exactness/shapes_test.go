// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// shape is what the Jobs of a ScaledJob look like.
type shape struct {
	change func(*batchv1.JobSpec)
	// pods is how many Pods the controller of Jobs makes for a Job. It is 0 if another controller manages the Jobs.
	pods int
}

// Jobs of all shapes count as one each, however many Pods they have and whoever manages them.
func TestJobsOfEachShape(t *testing.T) {
	t.Parallel()
	for name, of := range scene.Rows(t, map[string]shape{
		"Indexed": {func(spec *batchv1.JobSpec) {
			mode := batchv1.IndexedCompletion
			spec.ManagedBy, spec.CompletionMode, spec.Completions, spec.Parallelism = nil, &mode, new(int32(3)), new(int32(3))
		}, 3},
		"parallel":                      {func(spec *batchv1.JobSpec) { spec.ManagedBy, spec.Parallelism = nil, new(int32(3)) }, 3},
		"managed by another controller": {func(spec *batchv1.JobSpec) { spec.ManagedBy = new("example.com/another") }, 0},
	}, "Indexed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proveShape(t, newNamespace(t), "Jobs that are "+name, of)
		})
	}
}

// A webhook suspends each new Job, as Kueue's does, and somebody resumes it later.
func TestJobsThatAWebhookSuspends(t *testing.T) {
	skip.UnderShort(t, "TestJobsOfEachShape has Jobs with several Pods, and suspended Jobs count as Jobs without Pods do")
	t.Parallel()
	g, namespace := NewWithT(t), newNamespace(t)
	patch := webhook.Patch(`[{"op":"add","path":"/spec/suspend","value":true}]`)
	suspending, err := webhook.StartMutating(t.Context(), api, namespace, webhook.CreateJob, patch)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(suspending.Stop(context.WithoutCancel(t.Context()))).To(Succeed()) })
	s := proveShape(t, namespace, "Jobs that a webhook suspends", shape{func(spec *batchv1.JobSpec) { spec.ManagedBy = nil }, 1})
	for _, name := range s.Witness.Unfinished() {
		var job batchv1.Job
		g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &job)).To(Succeed())
		g.Expect(job.Spec.Suspend).To(HaveValue(BeTrue()), "nobody has resumed it")
	}
}

// proveShape has Jobs of this shape finish before and after the operator is killed, and expects one new Job for each.
func proveShape(t *testing.T, namespace, fault string, of shape) *scaledJob {
	t.Helper()
	const before, after = 4, 3
	g, proxy := NewWithT(t), startProxy(t)
	killed := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "worked", 1, saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		of.change(&spec.JobTemplate.Spec)
	})
	s.awaitSubscription(t)
	proxy.lag(longLag)
	g.Expect(s.PushTogether(t.Context(), 3*saturation)).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation))
	for range before {
		s.finishShape(t, of)
	}
	g.Expect(killed.Kill()).To(Succeed())
	next := startOperator(t, proxy, []string{namespace})
	for range after {
		s.finishShape(t, of)
	}
	prove(t, next, witness.Row{
		Fault:   fault + " finish, watches 0.5 s late; kill -9",
		Promise: "each Job counts as one, whatever it looks like",
	}, claim{scaledJob: s, jobs: saturation + before + after})
	return s
}

// finishShape has the first unfinished Job succeed: it is resumed if it is suspended, and then all its Pods succeed.
func (s *scaledJob) finishShape(t *testing.T, of shape) {
	t.Helper()
	g, name := NewWithT(t), s.Witness.Unfinished()[0]
	if of.pods == 0 {
		g.Expect(s.finish(t.Context(), name)).To(Succeed())
	} else {
		g.Expect(s.take(t.Context())).To(Succeed())
		job := &batchv1.Job{}
		job.Namespace, job.Name = s.Object.Namespace, name
		resume := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))
		g.Expect(api.Patch(t.Context(), job, resume)).To(Succeed())
		var pods corev1.PodList
		g.Eventually(func() ([]corev1.Pod, error) {
			err := api.List(t.Context(), &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
			return pods.Items, err
		}).WithTimeout(timeout).WithPolling(pollInterval).Should(HaveLen(of.pods))
		succeed := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
		for i := range pods.Items {
			g.Expect(api.Status().Patch(t.Context(), &pods.Items[i], succeed)).To(Succeed())
		}
	}
	g.Eventually(s.Witness.Unfinished).WithTimeout(timeout).ShouldNot(ContainElement(name))
}
