// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/gomega"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// workers play the containers of the Pods of a ScaledJob, until the test ends.
type workers struct {
	queue string
	batch int // how many messages one takes
}

// employ starts the workers.
func (s *scene) employ(batch int) {
	s.t.Helper()
	changes, err := admin.Watch(s.t.Context(), &corev1.PodList{}, s.ours()...)
	s.Expect(err).NotTo(HaveOccurred())
	staff := &workers{queue: s.queue, batch: batch}
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
	err := redis.Client().RPopCount(ctx, w.queue, w.batch).Err()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return fmt.Errorf("removing messages: %w", err)
	}
	return endPod(ctx, pod, cluster.PodSucceedAfter)
}

// endPod lets the Pod succeed or fail, as the annotation says. One that is gone
// already has ended.
func endPod(ctx context.Context, pod *corev1.Pod, annotation string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, annotation))
	if err := client.IgnoreNotFound(admin.Patch(ctx, pod.DeepCopy(), patch)); err != nil {
		return fmt.Errorf("ending Pod %s: %w", pod.Name, err)
	}
	return nil
}

// succeed plays the worker of one Job: it removes its message, its Pod
// succeeds, and so does the Job.
func (s *scene) succeed(job *batchv1.Job) {
	s.t.Helper()
	s.remove()
	s.end(job, cluster.PodSucceedAfter)
}

// fail is succeed for a worker that fails for good: it removes its message all
// the same.
func (s *scene) fail(job *batchv1.Job) {
	s.t.Helper()
	s.remove()
	s.end(job, cluster.PodFailAfter)
}

// end ends the Pod of the Job, waits for the Job to end, and updates it.
func (s *scene) end(job *batchv1.Job, annotation string) {
	s.t.Helper()
	pods := func() []corev1.Pod {
		var pods corev1.PodList
		s.Expect(admin.List(s.t.Context(), &pods,
			client.InNamespace(s.namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
		return pods.Items
	}
	s.Eventually(pods).Should(ConsistOf(HaveField("Status.Phase", corev1.PodRunning)))
	s.Expect(endPod(s.t.Context(), &pods()[0], annotation)).To(Succeed())
	s.Eventually(func() *batchv1.JobCondition {
		*job = *s.witness.lastOf(job.UID)
		return ending(job)
	}).ShouldNot(BeNil())
}
