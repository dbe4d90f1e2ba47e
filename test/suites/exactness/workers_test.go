// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
)

// workInterval is the mean time in which the workers of a ScaledJob finish a
// Job. It is short enough for several to finish within one lag.
const workInterval = 25 * time.Millisecond

// stormAndWork has workers at work for as long as a storm lasts. Their queue is
// never empty. It returns how many Jobs they finished.
func stormAndWork(ctx context.Context, s *scaledJob) (finished int, err error) {
	if err := s.ScaledJob.PushTogether(ctx, stormPushes); err != nil {
		return 0, err
	}
	shift := make(chan struct{})
	var both errgroup.Group
	both.Go(func() (err error) {
		finished, err = s.work(ctx, shift)
		return err
	})
	both.Go(func() error {
		defer close(shift)
		return s.storm(ctx)
	})
	err = both.Wait()
	return finished, err
}

// putToWork has workers finish Jobs, in a storm on a queue that never gets empty,
// until the returned function is called. It returns how many Jobs they finished.
func putToWork(t *testing.T, s *scaledJob) (stopWork func() (finished int)) {
	t.Helper()
	g := NewWithT(t)
	s.PushTogether(stormPushes)
	var finished int
	var both errgroup.Group
	shift := make(chan struct{})
	both.Go(func() error { return s.storm(t.Context()) })
	both.Go(func() (err error) {
		finished, err = s.work(t.Context(), shift)
		return err
	})
	return func() int {
		close(shift)
		g.Expect(both.Wait()).To(Succeed())
		return finished
	}
}

// work does as workers do until the shift ends: it takes a message and finishes
// a Job, at random. It returns how many Jobs those were.
func (s *scaledJob) work(ctx context.Context, shift <-chan struct{}) (finished int, err error) {
	done := map[string]bool{}
	for {
		select {
		case <-shift:
			return len(done), nil
		case <-time.After(rand.N(2 * workInterval)):
		}
		// The watch may not have shown yet what was done last.
		left := slices.DeleteFunc(s.Jobs.Unfinished(), func(job string) bool { return done[job] })
		if len(left) == 0 {
			continue
		}
		job := left[rand.IntN(len(left))]
		if err := s.finish(ctx, job); err != nil {
			return len(done), err
		}
		done[job] = true
	}
}

// finish takes a message, and has a Job succeed.
func (s *scaledJob) finish(ctx context.Context, name string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	return jobwatch.Complete(ctx, api, client.ObjectKey{Namespace: s.Object.Namespace, Name: name})
}

// fail takes a message, and has a Job fail.
func (s *scaledJob) fail(ctx context.Context, name string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	now := metav1.Now()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Object.Namespace, Name: name}}
	unfinished := job.DeepCopy()
	job.Status = batchv1.JobStatus{
		StartTime: &now, Failed: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	return api.Status().Patch(ctx, job, client.MergeFrom(unfinished))
}

// take takes a message off the queue.
func (s *scaledJob) take(ctx context.Context) error {
	if err := redis.Client().RPop(ctx, s.Object.Spec.QueueName).Err(); err != nil {
		return fmt.Errorf("taking a message: %w", err)
	}
	return nil
}
