// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology finds out which servers of a deployment have which keys: the master that sentinels name, and the
// masters of a Redis Cluster. A [Directory] polls the servers of each deployment that is claimed, every second and
// whenever something contradicts what is known, and publishes what they report.
//
// # Why nothing is decided on an old master
//
// A route of a Directory is a hint where to read; each read shows whether it was right. The routes of a single server
// never change. A node of a Cluster answers MOVED if it does not own the key, and CLUSTERDOWN if it cannot reach most
// masters. A server that sentinels named says in the same round trip whether it is still a master, and is used only
// while a sentinel has named it within the last seconds.
//
// # The files
//
//	directory.go   the deployments in use
//	watcher.go     one deployment: which servers are polled
//	membership.go  which servers belong to it
//	responses.go   what its servers report
//	publishing.go  what follows from that
//	routing.go     where a key is
//	masters.go     which masters a user has a claim for
//	poller.go      polls one server
//	shares.go      how much may be polled on behalf of each tenant
//	sentinel.go    what sentinels report, and which of them is right
//	cluster.go     what nodes report, and which of them is right
//	nodes.go       parses the replies of nodes
//	announced.go   errors about servers that the user does not name
//	slot.go        the slot of a key
package topology
