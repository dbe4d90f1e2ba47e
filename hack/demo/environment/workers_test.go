// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/sample"
	"miracle.dev/scaledjob-operator/test/cluster"
)

const testQueue = "queue"

// An outstanding message whose Pod has ended would be due another Job.
func TestWorkerRemovesItsMessagesBeforeItEndsItsPod(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pod := pod("worker", corev1.PodRunning)
	queue := &fakeQueue{left: 12}
	leftAtTheEnd := int64(-1)
	kube := fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			leftAtTheEnd = queue.depth()
			return c.Patch(ctx, object, patch, opts...)
		},
	}).Build()
	w := newWorkers(kube, queue, []*scaledjobv1.ScaledJob{scaledJob()})
	g.Expect(w.work(t.Context(), pod)).To(Succeed())

	g.Expect(leftAtTheEnd).To(BeEquivalentTo(2))
	g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	g.Expect(pod.Annotations).To(HaveKeyWithValue(cluster.PodSucceedAfter, "0s"))
}

func TestEachRunningPodGetsOneWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	queue := &fakeQueue{left: 100}
	pending, running, other := pod("a", corev1.PodPending), pod("a", corev1.PodRunning), pod("b", corev1.PodRunning)
	kube := fake.NewClientBuilder().WithObjects(running, other).Build()
	w := newWorkers(kube, queue, []*scaledjobv1.ScaledJob{scaledJob()})

	group, ctx := errgroup.WithContext(t.Context())
	handler := w.handler(ctx, group)
	handler.OnAdd(pending, false)
	handler.OnUpdate(pending, running)
	handler.OnUpdate(running, running)
	handler.OnAdd(other, true)
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(queue.depth()).To(BeEquivalentTo(80))
}

func TestWorkerWaitsForARedisThatIsDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pod := pod("worker", corev1.PodRunning)
	queue := &fakeQueue{left: 12, refusals: 2}
	kube := fake.NewClientBuilder().WithObjects(pod).Build()
	w := newWorkers(kube, queue, []*scaledjobv1.ScaledJob{scaledJob()})
	g.Expect(w.work(t.Context(), pod)).To(Succeed())
	g.Expect(queue.depth()).To(BeEquivalentTo(2))
}

// fakeQueue refuses some requests, and then holds so many messages.
type fakeQueue struct {
	mu       sync.Mutex
	refusals int
	left     int64
}

func (q *fakeQueue) take(_ context.Context, key string, messages int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if key != testQueue {
		return errors.New("no such queue: " + key)
	}
	if q.refusals > 0 {
		q.refusals--
		return errors.New("connection refused")
	}
	q.left -= messages
	return nil
}

func (q *fakeQueue) depth() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
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
			Namespace: sample.Namespace, Name: name, UID: types.UID(name),
			Labels: map[string]string{scaledjobv1.LabelScaledJob: "worker"},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}
