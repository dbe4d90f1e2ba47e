// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// prune deletes the Jobs to replace, and the finished Jobs beyond the history limits. It keeps a finished Job as long as
// an earlier create of the same name may still be carried out.
func (r *Reconciler) prune(
	ctx context.Context, t *target, seen observation, replaced []*batchv1.Job,
) jobcontrol.Deleted {
	spec := &t.sj.Spec
	finished := seen.jobs.Prunable(spec.SuccessfulJobsHistoryLimitOrDefault(), spec.FailedJobsHistoryLimitOrDefault())
	finished = slices.DeleteFunc(finished, func(job *batchv1.Job) bool {
		ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
		return r.Gate.InDoubt(t.sj.UID, ordinal)
	})
	deleter := jobcontrol.Deleter{Client: r.Client, Take: func() func() { return t.pass.Take(enqueue.KindDelete) }}
	return deleter.Delete(ctx, t.sj, &t.mem.deletes, append(replaced, finished...))
}
