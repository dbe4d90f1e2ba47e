// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// pods is how many Pods a Job has.
const pods = 3

// Jobs of several Pods count as one each.
func TestJobsOfSeveralPods(t *testing.T) {
	t.Parallel()
	const before, after = 4, 3
	g, namespace, proxy := NewWithT(t), newNamespace(t), startProxy(t)
	killed := startOperator(t, proxy, []string{namespace})
	s := newScaledJob(t, namespace, "worked", 1, saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		job := &spec.JobTemplate.Spec
		job.ManagedBy, job.CompletionMode = nil, new(batchv1.IndexedCompletion)
		job.Completions, job.Parallelism = new(int32(pods)), new(int32(pods))
	})
	s.awaitSubscription(t)
	proxy.lag(longLag)
	g.Expect(s.PushTogether(t.Context(), 3*saturation)).To(Succeed())
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation))
	for range before {
		s.finishPods(t)
	}
	g.Expect(killed.Kill()).To(Succeed())
	next := startOperator(t, proxy, []string{namespace})
	for range after {
		s.finishPods(t)
	}
	prove(t, next, witness.Row{
		Fault:   "Indexed Jobs finish, watches 0.5 s late; kill -9",
		Promise: "each Job counts as one, however many Pods it has",
	}, claim{scaledJob: s, jobs: saturation + before + after})
}

// finishPods has all Pods of the first unfinished Job succeed.
func (s *scaledJob) finishPods(t *testing.T) {
	t.Helper()
	g, name := NewWithT(t), s.Witness.Unfinished()[0]
	g.Expect(s.take(t.Context())).To(Succeed())
	var list corev1.PodList
	g.Eventually(func() ([]corev1.Pod, error) {
		err := api.List(t.Context(), &list, client.InNamespace(s.Namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
		return list.Items, err
	}).WithTimeout(timeout).WithPolling(pollInterval).Should(HaveLen(pods))
	succeed := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
	for i := range list.Items {
		g.Expect(api.Status().Patch(t.Context(), &list.Items[i], succeed)).To(Succeed())
	}
	g.Eventually(s.Witness.Unfinished).WithTimeout(timeout).ShouldNot(ContainElement(name))
}
