// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

const testQueue = "queue"

// If a Pod ends while its message is outstanding, the operator creates another Job.
func TestWorkerRemovesItsMessagesBeforeItEndsItsPod(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pod, r := pod("worker", corev1.PodRunning), newRedis(t)
	g.Expect(r.Push(t.Context(), testQueue, 12)).To(Succeed())
	leftAtTheEnd := int64(-1)
	kube := fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			leftAtTheEnd, _ = r.depth(ctx, testQueue)
			return c.Patch(ctx, object, patch, opts...)
		},
	}).Build()
	w := newWorkers(kube, r, []*scaledjobv1.ScaledJob{scaledJob()})
	g.Expect(w.work(t.Context(), pod, scaledJob().Spec)).To(Succeed())

	g.Expect(leftAtTheEnd).To(BeEquivalentTo(2))
	g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	g.Expect(pod.Annotations).To(HaveKeyWithValue(cluster.PodSucceedAfter, "0s"))
}

func TestEachRunningPodGetsOneWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRedis(t)
	g.Expect(r.Push(t.Context(), testQueue, 100)).To(Succeed())
	pending, running, other := pod("a", corev1.PodPending), pod("a", corev1.PodRunning), pod("b", corev1.PodRunning)
	kube := fake.NewClientBuilder().WithObjects(running, other).Build()
	w := newWorkers(kube, r, []*scaledjobv1.ScaledJob{scaledJob()})

	group, ctx := errgroup.WithContext(t.Context())
	for _, pod := range []*corev1.Pod{pending, running, running, other} {
		w.start(ctx, group, pod)
	}
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(r.depth(t.Context(), testQueue)).To(BeEquivalentTo(80))
}

// While the demo keeps running, users may create objects of their own. The demo does not touch them.
func TestPodsOfOtherScaledJobsGetNoWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	theirs := pod("theirs", corev1.PodRunning)
	theirs.Labels[scaledjobv1.LabelScaledJob] = "visitors"
	kube := fake.NewClientBuilder().WithObjects(theirs).Build()
	w := newWorkers(kube, newRedis(t), []*scaledjobv1.ScaledJob{scaledJob()})

	group, ctx := errgroup.WithContext(t.Context())
	w.start(ctx, group, theirs)
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	g.Expect(theirs.Annotations).To(BeEmpty())
}

func TestWorkerWaitsForARedisThatIsDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pod, r := pod("worker", corev1.PodRunning), newRedis(t)
	kube := fake.NewClientBuilder().WithObjects(pod).Build()
	w := newWorkers(kube, r, []*scaledjobv1.ScaledJob{scaledJob()})
	g.Expect(r.Emulated.Kill()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- w.work(t.Context(), pod, scaledJob().Spec) }()
	g.Consistently(ended).WithTimeout(WorkDuration * 3 / 2).ShouldNot(Receive())
	g.Expect(r.Emulated.Restart()).To(Succeed())
	g.Eventually(ended).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}

func scaledJob() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec:       scaledjobv1.ScaledJobSpec{QueueName: testQueue, Threshold: 10},
	}
}

func pod(name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name),
			Labels: map[string]string{scaledjobv1.LabelScaledJob: "worker"},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}
