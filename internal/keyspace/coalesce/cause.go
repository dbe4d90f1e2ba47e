// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package coalesce merges the events of keys, of which there may be very many, into few wakes: the first event wakes at
// once, further wakes are spaced out, and the last event is always followed by a wake.
//
// It depends on neither Redis nor Kubernetes.
package coalesce

// ID identifies a ScaledJob: its namespace and its name.
type ID struct{ Namespace, Name string }

// Cause is why an id is woken. The values are ordered: merged wakes have the greatest cause.
type Cause int

// The causes, from the least to the most urgent.
const (
	// None means that there is no wake.
	None Cause = iota
	// Shrink means that the key may contain fewer elements.
	Shrink
	// Lost means that a subscription to the key has ended, so the server may be down.
	Lost
	// Changed means that something else about the server has changed: whether it announces the growth of the key, or
	// that it answers again.
	Changed
	// Confirmed means that a subscription to the key has begun, so earlier changes must be read now.
	Confirmed
	// Growth means that the key may contain more elements.
	Growth
)

// String returns the name of the cause.
func (c Cause) String() string {
	return [...]string{"None", "Shrink", "Lost", "Changed", "Confirmed", "Growth"}[c]
}

// Signal wakes one goroutine, because there may be something to do. It holds one token from [Signal.Set] until the
// goroutine receives it. So no signal is lost, and a second Set before that has no effect.
type Signal chan struct{}

// NewSignal returns a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
