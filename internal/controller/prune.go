// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// prune deletes the finished Jobs beyond the history limits, with their Pods, and tells whether some are left for another pass.
func (r *Reconciler) prune(ctx context.Context, sj *scaledjobv1.ScaledJob, seen observation) (more bool, err error) {
	old := seen.jobs.Prunable(sj.Spec.SuccessfulJobsHistoryLimitOrDefault(), sj.Spec.FailedJobsHistoryLimitOrDefault())
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for _, job := range old[:min(len(old), writesPerPass)] {
		group.Go(func() error { return r.deleteJob(ctx, job) })
	}
	return len(old) > writesPerPass, group.Wait()
}

// deleteJob deletes this very Job: not one of the same name that took its place. Without the propagation policy the API server would
// leave the Pods of the Job behind.
func (r *Reconciler) deleteJob(ctx context.Context, job *batchv1.Job) error {
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	err := r.Client.Delete(ctx, target,
		client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("pruning Job %s: %w", job.Name, err)
}
