// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tally follows the Jobs of one ScaledJob from one count to the next. The zero value has counted none.
type Tally struct {
	// active are the Jobs that had not finished at the last count, and those created since; nil before the first.
	active map[types.UID]struct{}
	total  int
}

// Change is what has become of the Jobs since the last count.
type Change struct {
	// Finished are the Jobs that have finished: at the first count, all that have.
	Finished []*batchv1.Job
	// MadeRoom says that there may be room for another Job since, as one has finished or gone.
	MadeRoom bool
	// Vanished says that a Job has gone which had not finished, or that it is not known whether one has.
	Vanished bool
}

// First says that nothing was counted yet.
func (t *Tally) First() bool { return t.active == nil }

// Total is how many Jobs there were at the last count.
func (t *Tally) Total() int { return t.total }

// Created adds a Job that was created a moment ago.
func (t *Tally) Created(uid types.UID) { t.active[uid] = struct{}{} }

// Count keeps which Jobs have not finished, and tells what has changed.
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
	return Change{Finished: finished, MadeRoom: madeRoom, Vanished: first || gone}
}
