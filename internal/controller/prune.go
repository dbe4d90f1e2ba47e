// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// deletesAtOnce is how many deletes of one pass are under way at the same time.
	deletesAtOnce = 16
	// deletesPerPass is how many deletes a pass sends before others get their turn.
	deletesPerPass = 128
)

// prune deletes the finished Jobs beyond the history limits, with their Pods, and tells whether some are left for another pass.
// Jobs that the cache still shows after their deletion are not deleted again.
func (r *Reconciler) prune(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation,
) (more bool, err error) {
	old := mem.unpruned(seen.jobs.Prunable(sj.Spec.SuccessfulJobsHistoryLimitOrDefault(), sj.Spec.FailedJobsHistoryLimitOrDefault()))
	if len(old) == 0 || mem.pruning.wait(time.Now()) > 0 {
		return false, nil
	}
	batch := old[:min(len(old), deletesPerPass)]
	if mem.pruning.failures > 0 {
		batch = old[:1]
	}
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	for i, job := range batch {
		group.Go(func() error {
			errs[i] = r.deleteJob(ctx, job)
			return nil
		})
	}
	_ = group.Wait()
	for i, job := range batch {
		if errs[i] == nil {
			mem.pruned[job.UID] = struct{}{}
		}
	}
	err = errors.Join(errs...)
	mem.pruning.note(err, time.Now())
	return err == nil && len(old) > len(batch), err
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
