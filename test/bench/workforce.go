// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// workforce is workers of the ScaledJob of a contender. Nothing else finishes its Jobs, because here no controller of Kubernetes runs.
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
		if err := pause(ctx, time.Until(begun.Add(time.Duration(i-done)*churnInterval))); err != nil {
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
	now := metav1.Now()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.sj.Namespace, Name: found.job}}
	unfinished := job.DeepCopy()
	job.Status = batchv1.JobStatus{
		StartTime: &now, CompletionTime: &now, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	if err := w.kube.Status().Patch(ctx, job, client.MergeFrom(unfinished)); err != nil {
		return time.Time{}, fmt.Errorf("finishing Job %s: %w", found.job, err)
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
		times = append(times, float64(replacement.at.Sub(at))/float64(time.Millisecond))
	}
	return times, nil
}

// awaitStatus waits until the status tells how many messages are left, that there are as many Jobs as may be, and that as many have
// finished as are kept of those.
func (w *workforce) awaitStatus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
