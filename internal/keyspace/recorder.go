// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

// Recorder receives what happens, for metrics. An endpoint is given as [auth.Endpoint.String], and reasons are those of
// package failure. Its methods are called often and must not block.
type Recorder interface {
	// Coalesced is called for each event that causes no wake of its own, because one is pending.
	Coalesced()
	// Received is called for each keyspace event of a server.
	Received(endpoint string)
	// Subscribed is called when a subscription to a server begins or ends, and with false at the start.
	Subscribed(endpoint string, subscribed bool)
	TrackingRecorder
	// Ended is called when a subscription or a tracking, or an attempt to begin one, has ended.
	Ended(endpoint, reason string)
	// Left is called when no keys of the server are watched any longer.
	Left(endpoint string)
}

// TrackingRecorder receives what happens while keys are tracked.
type TrackingRecorder interface {
	// Invalidated is called for each message of a server about changed keys that it tracks.
	Invalidated(endpoint string)
	// Tracked is called when the tracking of keys in a database begins or ends, and with false before the first attempt.
	Tracked(endpoint string, database int, tracked bool)
	// Untracked is called when no keys of the database are to be tracked any longer.
	Untracked(endpoint string, database int)
}

// noRecorder records nothing.
type noRecorder struct{}

func (noRecorder) Coalesced()                { /* nothing to do */ }
func (noRecorder) Received(string)           { /* nothing to do */ }
func (noRecorder) Subscribed(string, bool)   { /* nothing to do */ }
func (noRecorder) Invalidated(string)        { /* nothing to do */ }
func (noRecorder) Tracked(string, int, bool) { /* nothing to do */ }
func (noRecorder) Untracked(string, int)     { /* nothing to do */ }
func (noRecorder) Ended(string, string)      { /* nothing to do */ }
func (noRecorder) Left(string)               { /* nothing to do */ }
