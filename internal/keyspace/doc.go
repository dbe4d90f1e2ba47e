// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyspace watches Redis keys with keyspace notifications, and wakes those who watch a key when it may have
// changed. Where notifications are not verified, client tracking watches the keys instead.
//
// # What Redis guarantees
//
// With notify-keyspace-events set, a server publishes the name of an event on the channel __keyspace@<db>__:<key> after
// each command that changed the key, in the order of the commands. Pub/sub delivers at most once: a message is lost if
// nobody is subscribed, or if the connection of the subscriber breaks. Some changes publish nothing (FLUSHALL, SWAPDB,
// the full resync of a replica), one event may stand for any number of elements, and anyone who may PUBLISH can forge
// events.
//
// # What follows from that
//
// An event is only a hint to read the key, and keys are also read periodically. Every confirmation of a subscription
// wakes too: a read after the confirmation finds everything that was pushed before it, and a later push publishes an
// event. This one rule covers the start, reconnects, restored permissions and new watchers. The end of a subscription
// wakes as well, so that an outage shows at once even if nothing is pushed. So does a server that answers again after
// an outage which the subscription survived, because reads failed during the outage.
//
// A server confirms subscriptions even if it never publishes anything. So a [Watcher] also reports the verdict of
// package verify: it reads the setting of the server, records which classes of events arrive, and receives the depths
// that were read. A change of the verdict wakes; those that come by time alone are announced by [State].
//
// # The files
//
//	watcher.go     which id watches which keys of which endpoint
//	wants.go       what that means for each database of a server, and what changes
//	state.go       what is known about the events of the keys of an id
//	placements.go  which servers have the keys, and how a key moves
//	node           the conversation with one database of one server
//
// A message goes from the connection through the table of its node to package coalesce, which limits the rate of the
// wakes of an id, and on to the work queue. A connection is never made again by itself. An interruption always ends its
// session, and the confirmations of the next one follow.
//
// # Concurrency
//
// [Watcher.Ensure] and [Watcher.Forget] may be called at any time from many goroutines, also before [Watcher.Start] and
// after its end. They change what is wanted, and the nodes follow. If a database is watched again before its old node
// has ended, it has two for a moment. The old one has no keys, so it wakes nobody.
//
// # Deployments
//
// A Directory says which server has a key. With sentinels or a Cluster, that may change. Each server has nodes as a
// single one has. When a key moves, the new server's node gets it first, and the old one keeps it until the new
// subscription is confirmed, or for a few seconds.
//
// # Locks
//
// Locks are taken in this order: the watcher, the Directory or a node, the throttle or the evidence. They are held only
// for map look-ups, and never during I/O. A wake is delivered without waiting.
package keyspace
