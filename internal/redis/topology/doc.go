// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology follows which servers of a deployment have which keys: the master that sentinels name, and the
// masters of a Redis Cluster. A [Directory] asks the servers of each deployment that is claimed, every second and
// whenever something contradicts what is known, and publishes what they say.
//
// # Why nothing is decided on an old master
//
// What a Directory says is a hint where to read; each read shows whether it was right. A node of a Cluster answers MOVED
// if it does not own the key, and CLUSTERDOWN if it cannot reach most masters. A server that sentinels named says in the
// same round trip whether it is still a master, and is used only while a sentinel has named it within the last seconds.
//
// # The files
//
//	directory.go   the deployments in use
//	follower.go    one deployment: which servers are asked
//	membership.go  which servers belong to it
//	responses.go   what its servers have said
//	publishing.go  what follows from that
//	routing.go     where a key is
//	poller.go      one server that is asked, again and again
//	shares.go      how much is asked on behalf of each tenant
//	sentinel.go    what sentinels say, and which of them is right
//	cluster.go     what nodes say, and which of them is right
//	nodes.go       parses the replies of nodes
//	announced.go   errors about servers that the user does not name
//	slot.go        the slot of a key
package topology
