// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"maps"
	"time"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// inheritable is how far below the highest ordinal the creates of another process may still be under way: a pass sends no more.
const inheritable = 128

// ordinals knows which ordinals of one ScaledJob are free. The zero value has seen no Job yet.
//
// A Job's name follows from its ordinal, and the API server gives each name once. So two creators make no more Jobs than one, if they claim
// the same ordinals. An ordinal that is missing below the highest one may be that of a create under way: of an operator that has been
// killed, or of another that is still at work. If it is not claimed before any new one, both creates are carried out. An ordinal that had a
// Job is not claimed again, so that names stay unique.
type ordinals struct {
	highest int64
	// All ordinals up to floor are taken for used, and of those above it the ones in used.
	floor int64
	used  map[int64]struct{}
	// inherited is the highest ordinal that was there at the first look. From settled on, nothing up to it is under way any more, and what
	// is missing there had a Job that is gone.
	inherited int64
	settled   time.Time
}

// saw notes the ordinals of the Jobs that are there.
func (o *ordinals) saw(census *jobs.Census) {
	for job := range census.All {
		o.use(jobs.Ordinal(&job.ObjectMeta))
	}
}

// settle gives up the ordinals that are missing, but can't be under way: at the first look those far below the highest one, and in the end
// all that were missing then. It must not be called while any ordinal is in doubt.
func (o *ordinals) settle(now time.Time) {
	if o.settled.IsZero() {
		o.inherited, o.settled = o.highest, now.Add(forgetAfter)
		o.raise(o.inherited - inheritable)
	}
	if now.After(o.settled) {
		o.raise(o.inherited)
	}
}

// use notes that an ordinal has, or had, a Job.
func (o *ordinals) use(ordinal int64) {
	if ordinal <= o.floor {
		return
	}
	if o.used == nil {
		o.used = map[int64]struct{}{}
	}
	o.highest = max(o.highest, ordinal)
	o.used[ordinal] = struct{}{}
	o.raise(o.floor)
}

// raise takes all ordinals up to this one for used, and those that follow on it.
func (o *ordinals) raise(floor int64) {
	if floor > o.floor {
		o.floor = floor
		maps.DeleteFunc(o.used, func(ordinal int64, _ struct{}) bool { return ordinal <= floor })
	}
	for o.isUsed(o.floor + 1) {
		o.floor++
		delete(o.used, o.floor)
	}
}

func (o *ordinals) isUsed(ordinal int64) bool {
	_, used := o.used[ordinal]
	return used || ordinal <= o.floor
}

// free are the count ordinals to claim next, but for those in doubt: first the missing ones, the newest of which are the likeliest to be
// under way, then new ones.
func (o *ordinals) free(count int, inDoubt func(ordinal int64) bool) []int64 {
	var claimed []int64
	claim := func(ordinal int64) {
		if !o.isUsed(ordinal) && !inDoubt(ordinal) {
			claimed = append(claimed, ordinal)
		}
	}
	for ordinal := o.highest - 1; ordinal > o.floor && len(claimed) < count; ordinal-- {
		claim(ordinal)
	}
	for ordinal := max(o.highest, o.floor) + 1; len(claimed) < count; ordinal++ {
		claim(ordinal)
	}
	return claimed
}
