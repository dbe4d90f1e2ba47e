// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// workers simulate the containers of the Pods of a ScaledJob, until the test ends.
type workers struct {
	admin client.Client
	redis *goredis.Client
	queue string
	batch int // how many messages one takes
}

// startWorkers starts the workers.
func (s *scaledJob) startWorkers(batch int) {
	s.t.Helper()
	changes, err := s.API.Watch(s.t.Context(), &corev1.PodList{}, s.ours()...)
	s.Expect(err).NotTo(HaveOccurred())
	staff := &workers{admin: s.API, redis: s.redis.Client(), queue: s.Queue, batch: batch}
	done := make(chan error, 1)
	go func() { done <- staff.run(s.t.Context(), changes) }()
	s.t.Cleanup(func() { s.Expect(<-done).To(Succeed()) })
}

// run has a worker for each Pod that comes to run.
func (w *workers) run(ctx context.Context, changes watch.Interface) error {
	started := map[types.UID]bool{}
	var group errgroup.Group
	for change := range changes.ResultChan() {
		pod, isPod := change.Object.(*corev1.Pod)
		if !isPod || started[pod.UID] || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		started[pod.UID] = true
		group.Go(func() error {
			if err := w.work(ctx, pod); ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}

// work does what the container of the Pod would do. Removing the messages is
// its last act.
func (w *workers) work(ctx context.Context, pod *corev1.Pod) error {
	err := w.redis.RPopCount(ctx, w.queue, w.batch).Err()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return fmt.Errorf("removing messages: %w", err)
	}
	return cluster.Now(ctx, w.admin, pod, cluster.PodSucceedAfter)
}
