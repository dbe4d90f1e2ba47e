// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// workforce is workers of the ScaledJob of a contender. Nothing else finishes its Jobs, because here no controller of
// Kubernetes runs.
type workforce struct {
	*contender

	// finished is when each Job was that they finished.
	finished []time.Time
}

// work finishes the oldest Job every churnInterval, and returns when the last is finished.
func (w *workforce) work(ctx context.Context, lasting time.Duration) error {
	begun, done := time.Now(), len(w.finished)
	w.finished = append(w.finished, make([]time.Time, lasting/churnInterval)...)
	group, ctx := errgroup.WithContext(ctx)
	for i := done; i < len(w.finished); i++ {
		if err := scene.Pause(ctx, time.Until(begun.Add(time.Duration(i-done)*churnInterval))); err != nil {
			break // One has failed, or there is no time left.
		}
		group.Go(func() (err error) {
			w.finished[i], err = w.finish(ctx, i+1)
			return err
		})
	}
	return group.Wait()
}

// finish takes a message and finishes the n-th Job, and tells when that was so.
func (w *workforce) finish(ctx context.Context, n int) (time.Time, error) {
	found, err := w.nth(ctx, n)
	if err != nil {
		return time.Time{}, err
	}
	if err := w.queue.RPop(ctx, w.sj.Spec.QueueName).Err(); err != nil {
		return time.Time{}, fmt.Errorf("taking a message: %w", err)
	}
	if err := witness.Complete(ctx, w.kube, client.ObjectKey{Namespace: w.sj.Namespace, Name: found.job}); err != nil {
		return time.Time{}, err
	}
	return time.Now(), nil
}

// refills are how many milliseconds it took from the end of each Job until there was one more.
func (w *workforce) refills(ctx context.Context) (times []float64, err error) {
	for i, at := range slices.SortedFunc(slices.Values(w.finished), time.Time.Compare) {
		replacement, err := w.nth(ctx, int(churnLimit)+i+1)
		if err != nil {
			return nil, err
		}
		times = append(times, inMilliseconds(replacement.at.Sub(at)))
	}
	return times, nil
}

// awaitStatus waits until the status tells how many messages are left, that there are as many Jobs as may be, and that
// as many have finished as are kept of those.
func (w *workforce) awaitStatus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	depth, err := w.queue.LLen(ctx, w.sj.Spec.QueueName).Result()
	if err != nil {
		return fmt.Errorf("reading the depth: %w", err)
	}
	var sj scaledjobv1.ScaledJob
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(w.sj), &sj)
		status := sj.Status
		return status.QueueDepth != nil && *status.QueueDepth == depth && status.ActiveJobs == churnLimit &&
			status.SucceededJobs == w.sj.Spec.SuccessfulJobsHistoryLimitOrDefault(), err
	})
	if err != nil {
		return fmt.Errorf("waiting until the status of %s is right, with a depth of %d: %w; it is %+v", w.name, depth, err, sj.Status)
	}
	return nil
}
