// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

// Recorder is told what happens, for metrics. Servers are named by their address, and
// reasons are those of redisconn. Its methods are called often and must not block.
type Recorder interface {
	// Received is one keyspace event of a server.
	Received(endpoint string)
	// Coalesced is one notification that was merged into a wake which was pending already.
	Coalesced()
	// Subscribed says that the subscription to a server stands, or does not.
	Subscribed(endpoint string, stands bool)
	// Ended is one attempt to subscribe, or one subscription, that came to this end.
	Ended(endpoint, reason string)
	// Left says that nobody watches keys of the server any more.
	Left(endpoint string)
}

// noRecorder records nothing.
type noRecorder struct{}

func (noRecorder) Received(string)         { /* nothing to do */ }
func (noRecorder) Coalesced()              { /* nothing to do */ }
func (noRecorder) Subscribed(string, bool) { /* nothing to do */ }
func (noRecorder) Ended(string, string)    { /* nothing to do */ }
func (noRecorder) Left(string)             { /* nothing to do */ }
