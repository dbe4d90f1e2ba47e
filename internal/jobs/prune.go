// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// Prunable are the finished Jobs beyond the history limits, the longest finished first. Jobs that are already being deleted are
// neither kept nor named.
func (c *Owned) Prunable(succeededLimit, failedLimit int32) []*batchv1.Job {
	return append(beyond(c.Succeeded, int(succeededLimit)), beyond(c.Failed, int(failedLimit))...)
}

// beyond are all but the limit most recently finished Jobs.
func beyond(finished []*batchv1.Job, limit int) []*batchv1.Job {
	present := slices.DeleteFunc(slices.Clone(finished), func(job *batchv1.Job) bool {
		return job.DeletionTimestamp != nil
	})
	slices.SortFunc(present, func(a, b *batchv1.Job) int {
		return cmp.Or(FinishTime(a).Compare(FinishTime(b)), cmp.Compare(a.Name, b.Name))
	})
	return present[:max(0, len(present)-limit)]
}

// FinishTime is when the Job got the condition that ended it: unlike status.completionTime, failed Jobs have it as well. It is zero if
// the Job has not finished.
func FinishTime(job *batchv1.Job) time.Time {
	end := ending(job)
	if end == nil {
		return time.Time{}
	}
	return end.LastTransitionTime.Time
}
