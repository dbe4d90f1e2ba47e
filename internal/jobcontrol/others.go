// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import "time"

const (
	// othersAfter is for how long Jobs that another operator has created must appear until that is reported. When
	// leaders change, or the operator is upgraded or installed under another name, they appear for a shorter time.
	othersAfter = 30 * time.Second
	// othersInterval is the minimum time between two reports about one ScaledJob. Jobs of another operator that are
	// further apart do not count together.
	othersInterval = 10 * time.Minute
)

// others tracks the Jobs of one ScaledJob that another operator has created while this one worked. In the zero value
// there is none.
type others struct {
	// first and last are when such Jobs appeared.
	first, last time.Time
	reported    time.Time
	due         bool
}

// note records that such a Job has appeared.
func (o *others) note(now time.Time) {
	if now.Sub(o.last) > othersInterval {
		o.first = now
	}
	o.last = now
	if now.Sub(o.first) >= othersAfter && now.Sub(o.reported) >= othersInterval {
		o.reported, o.due = now, true
	}
}

// take reports whether a report is due, once for each.
func (o *others) take() bool {
	due := o.due
	o.due = false
	return due
}
