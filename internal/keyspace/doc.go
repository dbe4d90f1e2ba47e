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
// also tells what package proof makes of it: it asks the server for its setting, notes
// whether events come, and is told the depths that are read. A change of the verdict wakes.
//
// # How it is built
//
// A [Watcher] keeps one supervisor per endpoint. The supervisor runs one session after the
// other; a session is one connection from its dial to its end, and never reconnects, so
// that a gap is always an end, and the next session's confirmations follow it. Its receive
// loop looks the channel up in the index and marks the ids in the coalescer of package wake,
// which spaces out the wakes of an id and delivers them. Nothing in the receive loop can block:
// locks are held for map look-ups only, and behind a consumer that is slow the wakes of one id
// merge.
package keyspace
