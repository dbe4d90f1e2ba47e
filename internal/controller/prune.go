// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/deletion"
	"miracle.dev/scaledjob-operator/internal/jobtemplate"
)

// prune deletes the Jobs to be replaced, and the finished ones beyond the history limits.
func (r *Reconciler) prune(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, replaced []*batchv1.Job,
) deletion.Result {
	finished := seen.jobs.Prunable(sj.Spec.SuccessfulJobsHistoryLimitOrDefault(), sj.Spec.FailedJobsHistoryLimitOrDefault())
	return deletion.Deleter{Client: r.Client}.Delete(ctx, sj, &mem.deletes, append(replaced, finished...))
}

// replaceable are the Jobs to delete because they are of an earlier template, for others to take their place. There are none unless the
// user asks for that, and while it is not known that others can: Jobs may be created, none failed to be just now, and the API server accepts
// those of the template.
func replaceable(sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan, done outcome) []*batchv1.Job {
	possible := plan.mayCreate && sj.Spec.MaxReplicasOrDefault() > 0 && done.err == nil && done.refusal == nil && !done.crowded
	if !possible || sj.Spec.Rollout.Strategy != scaledjobv1.RolloutImmediate {
		return nil
	}
	if !jobtemplate.Accepted(sj, mem.status.Latest(sj).Conditions, done.template) {
		return nil
	}
	return seen.jobs.Outdated(seen.templateHash, seen.rollout)
}
