// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"maps"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// missingRange is how far below the highest ordinal the operator searches for missing ordinals. Creates in flight
// belong to one reconcile, with at most 512 creates, or were without an answer before it. The limit bounds the memory
// even if users forge ordinals.
const missingRange = 1024

// ordinals tracks which ordinals of one ScaledJob are free. In the zero value no Job was seen.
//
// The name of a Job follows from its ordinal, and names are unique in the API server. So two creators that use the same
// ordinals together create no surplus Job. An ordinal that is missing below the highest one may belong to a create in
// flight, from an operator that was killed or from another that still runs. It must be used before any new ordinal;
// otherwise both creates would succeed. An ordinal that has had a Job is not used again: otherwise names would not be
// unique over time, and two creators would not agree on which ordinals are missing. So each Job stores what its creator
// knew about the Jobs before it.
type ordinals struct {
	highest int64
	// All ordinals up to floor have had their Jobs. used has the used ordinals above floor.
	floor int64
	used  map[int64]struct{}
}

// saw records the owned Jobs. Verifying an ordinal against the name of its Job takes time, so a Job whose annotations
// bring nothing new is skipped without verification.
func (o *ordinals) saw(owned *jobs.Owned) {
	for job := range owned.All {
		ordinal, floor := jobs.AnnotatedOrdinal(&job.ObjectMeta)
		if o.isUsed(ordinal) && floor <= o.floor {
			continue
		}
		ordinal, floor = jobs.Ordinal(&job.ObjectMeta)
		o.use(ordinal)
		o.raise(floor)
	}
}

// use records that an ordinal has, or had, a Job.
func (o *ordinals) use(ordinal int64) {
	if ordinal <= o.floor {
		return
	}
	if o.used == nil {
		o.used = map[int64]struct{}{}
	}
	o.highest = max(o.highest, ordinal)
	o.used[ordinal] = struct{}{}
	o.raise(max(o.floor, o.highest-missingRange))
}

// raise records that all ordinals up to this one have had their Jobs. It also raises the floor over the used ordinals
// that follow directly.
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

// free returns the next count ordinals to use, except those in doubt: first the missing ordinals, highest first,
// because those are the most likely to be in flight, then new ones.
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
