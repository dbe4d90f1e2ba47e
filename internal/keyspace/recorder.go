// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import "miracle.dev/scaledjob-operator/internal/keyspace/node"

// Recorder receives what happens, for metrics. A server is given as [auth.Endpoint.String]. Its methods are called often
// and must not block.
type Recorder interface {
	node.Recorder
	// Coalesced is called for each event that causes no wake of its own, because one is pending.
	Coalesced()
	// Left is called when no keys of the server are watched any longer.
	Left(server string)
}
