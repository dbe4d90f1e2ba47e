// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"slices"
	"time"
)

// OrphanedAfter is how long messages are in progress without enough unfinished Jobs to hold them until they count as
// orphaned.
const OrphanedAfter = 30 * time.Second

// orphans tracks messages in progress that no unfinished Job can hold: their workers are gone, or they belong to other
// programs. All numbers are of Jobs that are due for such messages.
type orphans struct {
	// known is how many there are.
	known int64
	// least and most are the smallest and the largest observed excess since then. bare is the largest without regard to
	// what the unfinished Jobs were created for.
	least, most, bare int64
	since             time.Time
	// probes are the ordinals of the unfinished Jobs that were created for them, and ended are those of such Jobs that had
	// finished at the last observation.
	probes, ended []int64
	// resumed is true after a restart, if there were orphans before.
	resumed bool
}

// saw processes an observation: for how many Jobs messages are in progress, the number of unfinished Jobs, and the
// ordinals of the probes among them. It returns how many orphans have left since the last one.
func (o *orphans) saw(inProgress, active int64, probes []int64, now time.Time) (left int64) {
	o.ended = slices.DeleteFunc(slices.Clone(o.probes), func(probe int64) bool { return slices.Contains(probes, probe) })
	o.probes = probes
	excess := o.excess(inProgress, active)
	if o.resumed {
		o.resumed = false
		o.find(inProgress, active)
	}
	before := o.known
	o.known = min(o.known, inProgress)
	if o.since.IsZero() {
		o.least, o.most, o.bare, o.since = excess, excess, 0, now
	}
	o.least, o.most, o.bare = min(o.least, excess), max(o.most, excess), max(o.bare, inProgress-active)
	if now.Sub(o.since) >= OrphanedAfter {
		o.known = min(max(o.known, o.least), o.most)
		if o.bare == 0 { // All that is in progress may be what the Jobs hold, also those that were created for orphans.
			o.known = 0
		}
		o.least, o.most, o.bare, o.since = excess, excess, 0, now
	}
	return max(0, before-o.known)
}

// excess returns for how many Jobs messages are in progress beyond those that the unfinished Jobs can hold. What the
// Jobs that were created for orphans hold are orphans.
func (o *orphans) excess(inProgress, active int64) int64 {
	return max(0, inProgress-active+int64(len(o.probes)))
}

// find makes all that no unfinished Job can hold orphans at once.
func (o *orphans) find(inProgress, active int64) {
	o.known, o.since = o.excess(inProgress, active), time.Time{}
}

// isProbe reports whether a Job was created for orphans, and was unfinished at the last observation but one.
func (o *orphans) isProbe(ordinal int64) bool {
	return slices.Contains(o.probes, ordinal) || slices.Contains(o.ended, ordinal)
}
