// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tally tracks the Jobs of one ScaledJob from one count to the next. The zero value has counted none.
type Tally struct {
	// active are the Jobs that were unfinished at the last count, and those created since; nil before the first count.
	active map[types.UID]struct{}
	total  int
}

// Change is the difference between two counts.
type Change struct {
	// Finished are the Jobs that have finished since the last count. At the first count, they are all finished Jobs.
	Finished []*batchv1.Job
	// MadeRoom is true if a Job has finished or disappeared, so that a quota may have room for another one.
	MadeRoom bool
	// Disappeared is true if an unfinished Job has disappeared, and at the first count, when that is unknown.
	Disappeared bool
}

// First reports whether no Jobs were counted yet.
func (t *Tally) First() bool { return t.active == nil }

// Total returns the number of Jobs at the last count.
func (t *Tally) Total() int { return t.total }

// Created adds a Job that was created after the last count.
func (t *Tally) Created(uid types.UID) { t.active[uid] = struct{}{} }

// Count counts the Jobs and returns what has changed since the last count.
func (t *Tally) Count(owned *Owned) Change {
	before, first, present, total := t.active, t.First(), 0, 0
	var finished []*batchv1.Job
	t.active = make(map[types.UID]struct{}, len(owned.Active))
	for job := range owned.All {
		total++
		_, known := before[job.UID]
		if known {
			present++
		}
		if !Finished(job) {
			t.active[job.UID] = struct{}{}
		} else if known || first {
			finished = append(finished, job)
		}
	}
	gone := present < len(before)
	madeRoom := len(finished) > 0 || gone || total < t.total
	t.total = total
	return Change{Finished: finished, MadeRoom: madeRoom, Disappeared: first || gone}
}
