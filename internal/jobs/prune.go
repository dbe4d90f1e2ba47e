// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// Prunable returns the finished Jobs beyond the history limits, the ones that finished first before the others. It
// ignores Jobs that are already being deleted.
func (c *Owned) Prunable(succeededLimit, failedLimit int32) []*batchv1.Job {
	return append(beyond(c.Succeeded, int(succeededLimit)), beyond(c.Failed, int(failedLimit))...)
}

// Oldest returns the finished Jobs that finished first, so that there are n of them together with the given ones and
// those that are already being deleted.
func (c *Owned) Oldest(n int, with []*batchv1.Job) []*batchv1.Job {
	others := slices.DeleteFunc(beyond(append(slices.Clone(c.Succeeded), c.Failed...), 0), func(job *batchv1.Job) bool {
		return slices.Contains(with, job)
	})
	going := len(c.Succeeded) + len(c.Failed) - len(with) - len(others)
	return others[:min(max(0, n-len(with)-going), len(others))]
}

// beyond returns all but the limit most recently finished Jobs.
func beyond(finished []*batchv1.Job, limit int) []*batchv1.Job {
	present := slices.DeleteFunc(slices.Clone(finished), func(job *batchv1.Job) bool {
		return job.DeletionTimestamp != nil
	})
	slices.SortFunc(present, func(a, b *batchv1.Job) int {
		return cmp.Or(FinishTime(a).Compare(FinishTime(b)), cmp.Compare(a.Name, b.Name))
	})
	return present[:max(0, len(present)-limit)]
}

// FinishTime returns when the Job got the condition Complete or Failed; zero if it has neither. Unlike
// status.completionTime, it is also set for failed Jobs.
func FinishTime(job *batchv1.Job) time.Time {
	end := ending(job)
	if end == nil {
		return time.Time{}
	}
	return end.LastTransitionTime.Time
}
