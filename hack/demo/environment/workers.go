// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// WorkDuration is how long a worker needs for its messages.
const WorkDuration = time.Second

// workers stand in for the containers of the Pods, with one goroutine each.
type workers struct {
	kube    client.Client
	redis   *Redis
	specs   map[string]scaledjobv1.ScaledJobSpec // key: the name of the ScaledJob
	started map[types.UID]bool                   // key: the UID of the Pod
}

func newWorkers(kube client.Client, redis *Redis, scaledJobs []*scaledjobv1.ScaledJob) *workers {
	w := &workers{kube: kube, redis: redis, specs: map[string]scaledjobv1.ScaledJobSpec{}, started: map[types.UID]bool{}}
	for _, scaledJob := range scaledJobs {
		w.specs[scaledJob.Name] = scaledJob.Spec
	}
	return w
}

// start starts a worker for a running Pod of the demo that has none. It ignores Pods of ScaledJobs that the user has
// created. It must not be called concurrently.
func (w *workers) start(ctx context.Context, group *errgroup.Group, pod *corev1.Pod) {
	spec, ours := w.specs[pod.Labels[scaledjobv1.LabelScaledJob]]
	if !ours || w.started[pod.UID] || pod.Status.Phase != corev1.PodRunning {
		return
	}
	w.started[pod.UID] = true
	group.Go(func() error {
		if err := w.work(ctx, pod.DeepCopy(), spec); ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// work does what the container of a Pod would do. It removes the messages last: until then they count as outstanding,
// so that no other Job is created for them. While Redis is down it tries again later. A Pod that is deleted meanwhile
// is not an error.
func (w *workers) work(ctx context.Context, pod *corev1.Pod, spec scaledjobv1.ScaledJobSpec) error {
	take := func(ctx context.Context) (bool, error) {
		return w.redis.take(ctx, spec.QueueName, spec.Threshold) == nil, nil
	}
	if err := wait.PollUntilContextCancel(ctx, WorkDuration, false, take); err != nil {
		return err
	}
	return cluster.Now(ctx, w.kube, pod, cluster.PodSucceedAfter)
}
