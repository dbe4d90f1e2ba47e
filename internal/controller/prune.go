// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
)

// prune deletes the Jobs to be replaced, and the finished ones beyond the history limits.
func (r *Reconciler) prune(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, seen observation, replaced []*batchv1.Job,
) jobcontrol.Deleted {
	finished := seen.jobs.Prunable(sj.Spec.SuccessfulJobsHistoryLimitOrDefault(), sj.Spec.FailedJobsHistoryLimitOrDefault())
	return jobcontrol.Deleter{Client: r.Client}.Delete(ctx, sj, &mem.deletes, append(replaced, finished...))
}
