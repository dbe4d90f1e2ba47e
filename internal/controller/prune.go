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
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/jobtemplate"
)

const (
	// deletesAtOnce is how many deletes of one pass are under way at the same time.
	deletesAtOnce = 16
	// deletesPerPass is how many deletes a pass sends before others get their turn.
	deletesPerPass = 128
)

// pruned is what prune did.
type pruned struct {
	// more says that some are left for another pass, and replaced that Jobs of an earlier template are among those it deleted.
	more, replaced bool
	err            error
}

// prune deletes the Jobs to be replaced, and the finished ones beyond the history limits, with their Pods. Jobs that the cache still shows
// after their deletion are not deleted again.
func (r *Reconciler) prune(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, replaced []*batchv1.Job,
) pruned {
	finished := seen.jobs.Prunable(sj.Spec.SuccessfulJobsHistoryLimitOrDefault(), sj.Spec.FailedJobsHistoryLimitOrDefault())
	wanted := mem.unpruned(append(replaced, finished...))
	if len(wanted) == 0 || mem.pruning.wait(time.Now()) > 0 {
		return pruned{}
	}
	batch := wanted[:min(len(wanted), deletesPerPass)]
	if tried := mem.pruning.failures; tried > 0 { // One at a time, each in its turn: what is refused may be refused for ever.
		batch = wanted[tried%len(wanted):][:1]
	}
	errs := r.deleteAll(ctx, sj, batch)
	done := pruned{err: errors.Join(errs...)}
	for i, job := range batch {
		if errs[i] == nil {
			mem.pruned[job.UID] = struct{}{}
			done.replaced = done.replaced || !jobs.Finished(job)
		}
	}
	mem.pruning.note(done.err, time.Now())
	done.more = done.err == nil && len(wanted) > len(batch)
	return done
}

// replaceable are the Jobs to delete because they are of an earlier template, for others to take their place. There are none unless the
// user asks for that, and while it is not known that others can: Jobs may be created, none failed to be just now, and the API server accepts
// those of the template.
func replaceable(sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan, done outcome) []*batchv1.Job {
	possible := plan.mayCreate && sj.Spec.MaxReplicasOrDefault() > 0 && done.err == nil && done.refusal == nil && !done.crowded
	if !possible || sj.Spec.Rollout.Strategy != scaledjobv1.RolloutImmediate {
		return nil
	}
	if !jobtemplate.Accepted(sj, mem.latest(sj).Conditions, done.template) {
		return nil
	}
	return seen.jobs.Outdated(seen.templateHash, seen.rollout)
}

// deleteAll deletes Jobs, several at the same time, and returns the error of each.
func (r *Reconciler) deleteAll(ctx context.Context, sj *scaledjobv1.ScaledJob, batch []*batchv1.Job) []error {
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	for i, job := range batch {
		policy := metav1.DeletePropagationBackground
		if !jobs.Finished(job) {
			policy = sj.Spec.Rollout.DeletionPropagation()
		}
		group.Go(func() error {
			errs[i] = r.deleteJob(ctx, job, policy)
			return nil
		})
	}
	_ = group.Wait()
	return errs
}

// deleteJob deletes this very Job: not one of the same name that took its place. Without the propagation policy the API server would
// leave the Pods of the Job behind.
func (r *Reconciler) deleteJob(ctx context.Context, job *batchv1.Job, policy metav1.DeletionPropagation) error {
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	err := r.Client.Delete(ctx, target, client.PropagationPolicy(policy), client.Preconditions{UID: &job.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting Job %s: %w", job.Name, err)
}
