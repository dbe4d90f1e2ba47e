// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

// Signal tells one goroutine that there may be something to do. It holds one token from [Signal.Set] until the
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
