// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyspace wakes whoever watches a Redis key when the key may have changed.
//
// # What Redis promises
//
// With notify-keyspace-events on, a server publishes the name of the event on the channel
// __keyspace@<db>__:<key> after each command that changed the key, in the order of the
// commands. Pub/sub delivers at most once: what is published while nobody is subscribed,
// or to a subscriber that is cut off, is gone, and nothing tells. Some changes publish
// nothing at all (FLUSHALL, SWAPDB, a replica's full resync), one event may stand for any
// number of elements, and anyone with the right to PUBLISH can make events up.
//
// # What follows
//
// An event is a hint to go and read, never a fact; there is a periodic read besides.
// Every confirmation of a subscription wakes too: reading after the confirmation finds
// all that was pushed before it, and what is pushed later makes an event. This one rule
// covers the first start, reconnects, restored permissions and new watchers. The end of a
// subscription wakes as well, so that an outage shows at once where nothing is pushed. So
// does a server that answers again after it did not, where the subscription outlived that:
// the reads in between have failed.
//
// # What is told besides
//
// A subscription is confirmed by servers that will never publish anything. So a Watcher
// also tells what package verify makes of it: it asks the server for its setting, notes
// whether events of the classes of the keys come, and is told the depths that are read. A change
// of the verdict wakes.
//
// # How it is built
//
// A [Watcher] keeps one supervisor per endpoint. The supervisor runs one session of package
// subscription after the other; a session is one connection from its dial to its end, and never
// reconnects, so that a gap is always an end, and the next session's confirmations follow it.
// For a message, the supervisor looks up what the event means, has the set of channels mark the
// ids, and the coalescer of package coalesce spaces out the wakes of an id and delivers them.
//
// # What may happen in any order
//
// [Watcher.Ensure] and [Watcher.Forget] come at any time, from many goroutines, also before
// [Watcher.Start] and after its end; they change what is wanted, and what runs follows. An
// endpoint that is left and watched again before its supervisor has ended has two for a moment.
// The old one has no channel any more that anybody watches, so it wakes nobody.
//
// # Locks
//
// In the order in which they are taken: that of the watcher, then that of a session, of its set
// of channels, of the coalescer or the evidence. They are held for map look-ups only, never
// during I/O, and not while a wake is delivered: a consumer that is slow holds up nothing, and
// the wakes of one id merge behind it.
package keyspace
