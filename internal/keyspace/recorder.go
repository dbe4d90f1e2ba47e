// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

// Recorder is told what happens, for metrics. Servers are named by their address, and
// reasons are those of rediserror. Its methods are called often and must not block.
type Recorder interface {
	// Coalesced is one notification that needs no wake of its own, since one is pending.
	Coalesced()
	// Received is one keyspace event of a server.
	Received(endpoint string)
	// Subscribed says whether a subscription to a server stands from now on. It is called
	// with false first.
	Subscribed(endpoint string, stands bool)
	// Ended says that a subscription, or an attempt at one, came to this end.
	Ended(endpoint, reason string)
	// Left says that nobody watches keys of the server any more.
	Left(endpoint string)
}

// noRecorder records nothing.
type noRecorder struct{}

func (noRecorder) Coalesced()              { /* nothing to do */ }
func (noRecorder) Received(string)         { /* nothing to do */ }
func (noRecorder) Subscribed(string, bool) { /* nothing to do */ }
func (noRecorder) Ended(string, string)    { /* nothing to do */ }
func (noRecorder) Left(string)             { /* nothing to do */ }
