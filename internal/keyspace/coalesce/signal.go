// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

// Signal tells one goroutine that there may be something to do. It holds a token from
// [Signal.Set] until that goroutine receives it, so a signal that was set is never missed, and
// setting it again before does nothing.
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
