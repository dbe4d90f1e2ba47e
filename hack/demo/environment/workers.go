// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/cluster"
)

const (
	// WorkDuration is how long a worker works on its messages.
	WorkDuration = time.Second
	// retryInterval is how long a worker waits for a Redis that is down.
	retryInterval = 200 * time.Millisecond
)

// queue is where workers take messages.
type queue interface {
	take(ctx context.Context, key string, messages int64) error
}

// workers stand for the containers of the Pods, one goroutine each.
type workers struct {
	kube  client.Client
	queue queue
	specs map[string]scaledjobv1.ScaledJobSpec // by the name of the ScaledJob
}

func newWorkers(kube client.Client, queue queue, scaledJobs []*scaledjobv1.ScaledJob) *workers {
	w := &workers{kube: kube, queue: queue, specs: map[string]scaledjobv1.ScaledJobSpec{}}
	for _, scaledJob := range scaledJobs {
		w.specs[scaledJob.Name] = scaledJob.Spec
	}
	return w
}

// handler starts a worker for each Pod that an informer shows running.
func (w *workers) handler(ctx context.Context, group *errgroup.Group) toolscache.ResourceEventHandler {
	started := map[types.UID]bool{}
	start := func(object any) {
		pod, isPod := object.(*corev1.Pod)
		if !isPod || started[pod.UID] || pod.Status.Phase != corev1.PodRunning {
			return
		}
		started[pod.UID] = true
		group.Go(func() error {
			if err := w.work(ctx, pod.DeepCopy()); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	// The informer calls these one at a time.
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    start,
		UpdateFunc: func(_, object any) { start(object) },
	}
}

// work does what the container of a Pod would do. Removing the messages is its
// last act: they count as outstanding until then, so that no other Job is made
// for them. A Redis that is down is waited for.
func (w *workers) work(ctx context.Context, pod *corev1.Pod) error {
	if err := pause(ctx, WorkDuration); err != nil {
		return err
	}
	spec := w.specs[pod.Labels[scaledjobv1.LabelScaledJob]]
	for w.queue.take(ctx, spec.QueueName, spec.Threshold) != nil {
		if err := pause(ctx, retryInterval); err != nil {
			return err
		}
	}
	running := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, cluster.PodSucceedAfter, "0s")
	if err := w.kube.Patch(ctx, pod, client.MergeFrom(running)); err != nil {
		return fmt.Errorf("ending Pod %s: %w", pod.Name, err)
	}
	return nil
}

// pause returns after a while, or with an error as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
