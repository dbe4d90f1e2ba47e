// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"maps"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// reach is how far below the highest ordinal others are looked for that are missing: those under way are of one pass, of 128 at most, or were
// in doubt before it. It bounds what is kept, whatever ordinals are forged.
const reach = 1024

// ordinals knows which ordinals of one ScaledJob are free. The zero value has seen no Job yet.
//
// A Job's name follows from its ordinal, and the API server gives each name once. So two creators make no more Jobs than one, if they claim
// the same ordinals. An ordinal that is missing below the highest one may be that of a create under way: of an operator that has been
// killed, or of another that is still at work. If it is not claimed before any new one, both creates are carried out. An ordinal that had a
// Job is not claimed again, or else names would not be unique, nor would two creators agree on what is missing: each Job tells what its
// creator knew of the Jobs before it.
type ordinals struct {
	highest int64
	// All ordinals up to floor have had their Jobs, and of those above it the ones in used.
	floor int64
	used  map[int64]struct{}
}

// saw notes the Jobs that are there. To hold a Job's name against what it tells takes time, so that is done once for each Job: what is known
// already need not be true.
func (o *ordinals) saw(owned *jobs.Owned) {
	for job := range owned.All {
		ordinal, floor := jobs.ToldOrdinal(&job.ObjectMeta)
		if o.isUsed(ordinal) && floor <= o.floor {
			continue
		}
		ordinal, floor = jobs.Ordinal(&job.ObjectMeta)
		o.use(ordinal)
		o.raise(floor)
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
	o.raise(max(o.floor, o.highest-reach))
}

// raise notes that all ordinals up to this one have had their Jobs. The floor goes on over those in use that follow.
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
