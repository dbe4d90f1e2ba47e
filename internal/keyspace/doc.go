// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyspace wakes whoever watches a Redis key when the key may have changed.
//
// # What Redis promises
//
// With notify-keyspace-events on, a server publishes the name of the event on the channel __keyspace@<db>__:<key> after each
// command that changed the key, in the order of the commands. Pub/sub delivers at most once: a message published while nobody
// is subscribed, or to a subscriber that is cut off, is lost without a trace. Some changes publish nothing at all (FLUSHALL,
// SWAPDB, a replica's full resync), one event may stand for any number of elements, and anyone with the right to PUBLISH can
// forge events.
//
// # What follows
//
// An event is a hint to read, never a fact, and there is a periodic read besides. Every confirmation of a subscription wakes
// too: a read after the confirmation finds all that was pushed before it, and a later push makes an event. This one rule covers
// the first start, reconnects, restored permissions and new watchers. The end of a subscription wakes as well, so that an outage
// shows at once where nothing is pushed. So does a server that answers again, if the subscription outlived the outage: the reads
// in between have failed.
//
// A server confirms subscriptions even if it will never publish anything. So a [Watcher] also reports the verdict of package
// verify: it asks the server for its setting, notes whether events of the classes of the keys come, and is told the depths that
// are read. A change of the verdict wakes.
//
// # The files
//
//	watcher.go      who watches which keys of which endpoint
//	supervisor.go   one per endpoint: runs one session after the other
//	session.go      one connection, from its dial to its end: SUBSCRIBE, UNSUBSCRIBE, PING and their answers
//	channels.go     which channels of a server are watched, and how far the subscription to each has come
//	events.go       what each event means for a key
//	settings.go     asks the server which events it publishes
//	state.go        what is known about the events of the keys of an id
//
// A message goes session, supervisor, channels, and on to package coalesce, which spaces out the wakes of an id and delivers
// them. A session never reconnects: a gap is always an end, and the confirmations of the next session follow it.
//
// # The life of a channel
//
//	           SUBSCRIBE               confirmed: wakes
//	absent ─────────────► subscribing ──────────────────► present
//	  ▲ ▲                      │ refused                     │ nobody watches it: UNSUBSCRIBE
//	  │ │                      ▼                             ▼
//	  │ └─── after a while ─ denied                    unsubscribing
//	  └─────────────────────── confirmed ────────────────────┘
//
// The end of a session makes all channels absent except the denied ones, which a new session does not try sooner. A channel that
// nobody watches is forgotten unless an answer is to come: Redis answers a SUBSCRIBE although nobody wants it any more, and until
// it has answered an UNSUBSCRIBE, messages come. An id that begins to watch a channel at that moment waits for the confirmation of
// the next SUBSCRIBE: nothing else shows that no message was missed.
//
// # One command at a time
//
// An error reply does not tell to which command it belongs, and one forbidden channel makes Redis refuse a whole SUBSCRIBE. So
// the next command is sent when the last one is answered in full, and a SUBSCRIBE that is refused for lack of permission is sent
// again in halves, until the forbidden channels are alone.
//
// # What may happen in any order
//
// [Watcher.Ensure] and [Watcher.Forget] come at any time, from many goroutines, also before [Watcher.Start] and after its end;
// they change what is wanted, and what runs follows. An endpoint that is left and watched again before its supervisor has ended
// has two for a moment. The old one has no channel left that anybody watches, so it wakes nobody.
//
// # Locks
//
// They are taken in this order: the lock of the watcher, of a session, of its channels, of the coalescer or the evidence. They
// are held for map look-ups only, never during I/O, and not while a wake is delivered: a slow consumer holds up nothing, and the
// wakes of one id merge behind it.
package keyspace
