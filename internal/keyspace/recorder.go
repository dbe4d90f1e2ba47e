// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import "miracle.dev/scaledjob-operator/internal/keyspace/tracking"

// Recorder receives what happens, for metrics. An endpoint is given as [auth.Endpoint.String], and reasons are those of
// package failure. Its methods are called often and must not block.
type Recorder interface {
	tracking.Recorder
	// Coalesced is called for each event that causes no wake of its own, because one is pending.
	Coalesced()
	// Received returns a function to call for each keyspace event of a server.
	Received(endpoint string) (count func())
	// Subscribed is called when a subscription to a server begins or ends, and with false at the start.
	Subscribed(endpoint string, subscribed bool)
	// Untracked is called when no keys of the database are to be tracked any longer.
	Untracked(endpoint string, database int)
	// Left is called when no keys of the server are watched any longer.
	Left(endpoint string)
}
