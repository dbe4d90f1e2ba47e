// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package coalesce turns what happens to keys, of which there may be very much, into few wakes of
// those concerned: the first at once, the others spaced out, the last one never left out.
//
// It knows no Redis and no Kubernetes.
package coalesce

// ID names who is woken: the namespace and the name of an object.
type ID struct{ Namespace, Name string }

// Cause says why an id is woken. Causes are ordered: merging wakes keeps the greatest.
type Cause int

// The causes, from the least to the most urgent.
const (
	// None means that there is nothing to wake for.
	None Cause = iota
	// Shrink means that the key may hold less.
	Shrink
	// Lost means that a subscription to the key has ended: see whether the server is there.
	Lost
	// Changed means that something is known of the server which was not told: whether it
	// announces the growth of the key, or that it answers again.
	Changed
	// Confirmed means that a subscription to the key begins now: read what came before.
	Confirmed
	// Growth means that the key may hold more.
	Growth
)

// String returns the name of the cause.
func (c Cause) String() string {
	switch c {
	case Shrink:
		return "Shrink"
	case Lost:
		return "Lost"
	case Changed:
		return "Changed"
	case Confirmed:
		return "Confirmed"
	case Growth:
		return "Growth"
	default:
		return "None"
	}
}

// Wake asks to look at the keys of an id again.
type Wake struct {
	// ID is what was passed to [Coalescer.Add].
	ID ID
	// Cause is the most urgent reason since the previous wake of the id.
	Cause Cause
}
