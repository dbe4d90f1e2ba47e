// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// historyBatch is how many finished Jobs beyond the history limits may be left while Jobs are created, and
	// historyDelay for how long. The next create does not wait for their deletes then, and together they take less time
	// than one by one.
	historyBatch = 16
	historyDelay = 2 * time.Second
)

// deleted is the result of deleting Jobs.
type deleted struct {
	jobcontrol.Deleted

	// forQuota is true if finished Jobs within the history limits are among them, because a quota leaves no room for new
	// ones.
	forQuota bool
}

// prune deletes the Jobs to replace, and the finished Jobs beyond the history limits. It keeps a finished Job as long
// as an earlier create of the same name may still be carried out, and for a moment if this reconcile has created Jobs.
// If a quota for Jobs is used up, as many of the oldest finished Jobs are deleted as new ones are due.
func (r *Reconciler) prune(
	ctx context.Context, t *target, seen observation, plan plan, created created, checked checked,
) deleted {
	spec, replaced := &t.sj.Spec, replaceable(t, seen, plan, created, checked)
	finished := seen.jobs.Prunable(spec.SuccessfulJobsHistoryLimitOrDefault(), spec.FailedJobsHistoryLimitOrDefault())
	inDoubt := func(job *batchv1.Job) bool {
		ordinal, _ := jobs.Ordinal(&job.ObjectMeta)
		return r.Gate.InDoubt(t.sj.UID, ordinal)
	}
	finished = slices.DeleteFunc(finished, inDoubt)
	room := slices.DeleteFunc(seen.jobs.Oldest(roomNeeded(plan, created, len(seen.jobs.Succeeded)+len(seen.jobs.Failed)), finished), inDoubt)
	if created.jobs > 0 && len(finished) > 0 && len(replaced)+len(room) == 0 && !pressing(finished, time.Now()) {
		return deleted{Deleted: jobcontrol.Deleted{Later: true}}
	}
	deleter := jobcontrol.Deleter{Client: r.Client, Limit: &r.limiter}
	done := deleted{Deleted: deleter.Delete(ctx, t.sj, &t.mem.deletes, slices.Concat(room, replaced, finished))}
	if done.forQuota = len(room) > 0 && done.Finished > 0; done.forQuota {
		t.mem.roomMade = time.Now()
	}
	return done
}

// jobQuota is the resource of a quota that limits how many Jobs exist in a namespace, finished or not.
const jobQuota = "count/jobs.batch"

// quotaLag is how long a quota may still count Jobs that were deleted. Until then its refusals are not final, and no
// further Jobs are deleted for it.
const quotaLag = 10 * time.Second

// madeRoom reports whether Jobs were deleted for new ones so recently that a quota may still count them.
func (m *memory) madeRoom(now time.Time) bool { return now.Sub(m.roomMade) < quotaLag }

// roomNeeded returns how many Jobs have to go so that those that are due fit into a quota for Jobs. It returns 0 if it
// is not used up, or if not even one Job would fit when all finished ones are gone.
func roomNeeded(plan plan, created created, finished int) int {
	over := int(created.refused.Exceeded[jobQuota])
	if over <= 0 || over > finished {
		return 0
	}
	return over + max(0, plan.create-created.jobs-1)
}

// pressing reports whether so many finished Jobs are to be deleted, or one has finished so long ago, that this comes
// before the next create.
func pressing(finished []*batchv1.Job, now time.Time) bool {
	return len(finished) >= historyBatch || slices.ContainsFunc(finished, func(job *batchv1.Job) bool {
		return now.Sub(jobs.FinishTime(job)) >= historyDelay
	})
}

// untilPruned returns the time until finished Jobs are deleted that were left.
func (d deleted) untilPruned() time.Duration {
	if d.Later {
		return historyDelay
	}
	return never
}
