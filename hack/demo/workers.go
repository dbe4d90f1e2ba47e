// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/cluster"
)

// workDuration is how long a worker works on its messages.
const workDuration = 500 * time.Millisecond

// workers stand for the containers of the Pods, one goroutine each.
type workers struct {
	client client.Client
	redis  *redis.Client
	queue  string
	batch  int // how many messages one takes
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
// for them.
func (w *workers) work(ctx context.Context, pod *corev1.Pod) error {
	if err := pause(ctx, workDuration); err != nil {
		return err
	}
	err := w.redis.LPopCount(ctx, w.queue, w.batch).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("removing messages: %w", err)
	}
	running := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, cluster.PodSucceedAfter, "0s")
	if err := w.client.Patch(ctx, pod, client.MergeFrom(running)); err != nil {
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
