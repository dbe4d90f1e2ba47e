// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"miracle.dev/scaledjob-operator/test/cluster"
	"miracle.dev/scaledjob-operator/test/redistest"
)

const testQueue = "queue"

// An outstanding message whose Pod has ended would be due another Job.
func TestWorkerRemovesItsMessagesBeforeItEndsItsPod(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	redis := redistest.New(t, redistest.Options{}).Client()
	g.Expect(pushMessages(t.Context(), redis, testQueue, 12)).To(Succeed())
	pod := pod("worker", corev1.PodRunning)

	leftAtTheEnd := int64(-1)
	kube := fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			leftAtTheEnd = redis.LLen(ctx, testQueue).Val()
			return c.Patch(ctx, object, patch, opts...)
		},
	}).Build()
	w := &workers{client: kube, redis: redis, queue: testQueue, batch: 10}
	g.Expect(w.work(t.Context(), pod)).To(Succeed())

	g.Expect(leftAtTheEnd).To(BeEquivalentTo(2))
	g.Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	g.Expect(pod.Annotations).To(HaveKeyWithValue(cluster.PodSucceedAfter, "0s"))
}

func TestEachRunningPodGetsOneWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	redis := redistest.New(t, redistest.Options{}).Client()
	g.Expect(pushMessages(t.Context(), redis, testQueue, 100)).To(Succeed())
	pending, running, other := pod("a", corev1.PodPending), pod("a", corev1.PodRunning), pod("b", corev1.PodRunning)
	kube := fake.NewClientBuilder().WithObjects(running, other).Build()
	w := &workers{client: kube, redis: redis, queue: testQueue, batch: 10}

	group, ctx := errgroup.WithContext(t.Context())
	handler := w.handler(ctx, group)
	handler.OnAdd(pending, false)
	handler.OnUpdate(pending, running)
	handler.OnUpdate(running, running)
	handler.OnAdd(other, true)
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(redis.LLen(t.Context(), testQueue).Val()).To(BeEquivalentTo(80))
}

func pod(name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Status:     corev1.PodStatus{Phase: phase},
	}
}
