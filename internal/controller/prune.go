// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"

	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
)

// prune deletes the Jobs to replace, and the finished Jobs beyond the history limits.
func (r *Reconciler) prune(
	ctx context.Context, t *target, seen observation, replaced []*batchv1.Job,
) jobcontrol.Deleted {
	spec := &t.sj.Spec
	finished := seen.jobs.Prunable(spec.SuccessfulJobsHistoryLimitOrDefault(), spec.FailedJobsHistoryLimitOrDefault())
	deleter := jobcontrol.Deleter{Client: r.Client, Take: func() func() { return t.pass.Take(enqueue.KindDelete) }}
	return deleter.Delete(ctx, t.sj, &t.mem.deletes, append(replaced, finished...))
}
