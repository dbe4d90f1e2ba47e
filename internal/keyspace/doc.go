// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyspace watches Redis keys with keyspace notifications, and wakes those who watch a key when it may have
// changed. Where notifications are not verified, package tracking watches the keys instead.
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
// that were read. A change of the verdict wakes; those that come by time alone are foretold by [State].
//
// # The files
//
//	watcher.go      which id watches which keys of which endpoint
//	wants.go        what that means for each server, and what changes
//	supervisor.go   one per endpoint: runs one session after the other
//	session.go      one connection, from its dial to its end: SUBSCRIBE, UNSUBSCRIBE, PING and their replies
//	channels.go     the channels of a server, who watches them, and the state of each subscription
//	events.go       what each event means for a key
//	settings.go     reads which events the server publishes
//	state.go        what is known about the events of the keys of an id
//	tracked.go      which keys are tracked by package tracking, and what is known about that
//	places.go       which servers of a deployment have the keys, and how a key moves
//
// A message goes from the session through the supervisor and the channels to package coalesce, which limits the rate of
// the wakes of an id, and on to the work queue. A session never reconnects. An interruption always ends it, and the
// confirmations of the next session follow.
//
// # The states of a channel
//
//	           SUBSCRIBE               confirmed: wakes
//	absent ─────────────► subscribing ──────────────────► present
//	  ▲ ▲                      │ refused                     │ nobody needs it: UNSUBSCRIBE
//	  │ │                      ▼                             ▼
//	  │ └─── after a while ─ denied                    unsubscribing
//	  └─────────────────────── confirmed ────────────────────┘
//
// When a session ends, all channels become absent except the denied ones, which the next session does not retry
// earlier. A channel that nobody watches is removed, unless a reply is outstanding: Redis confirms a SUBSCRIBE even if
// nobody needs it any longer, and sends messages until it has confirmed an UNSUBSCRIBE. An id that starts to watch a
// channel at that moment waits for the confirmation of the next SUBSCRIBE, because only that shows that no message was
// missed.
//
// # Too many events
//
// The events of a key, and all events of a namespace, are limited. Where there are more, the channel is crowded: it is
// unsubscribed from, the verdict says so to all who watch it, and the key is tracked. A timer of the server has its
// crowded channels subscribed to again, and the next time it ends, those that had few events since are calm. See
// docs/decisions/0015-tracking-keys.md.
//
// # One command at a time
//
// An error reply does not tell which command it belongs to, and one forbidden channel makes Redis reject a whole
// SUBSCRIBE. So the next command is sent only after the complete reply to the last one, and a SUBSCRIBE that was
// rejected because of a permission is repeated in halves until the forbidden channels are alone.
//
// # Concurrency
//
// [Watcher.Ensure] and [Watcher.Forget] may be called at any time from many goroutines, also before [Watcher.Start] and
// after its end. They change what is wanted, and the supervisors follow. If an endpoint is watched again before its old
// supervisor has ended, it has two for a moment. The old one has no watched channels, so it wakes nobody.
//
// # Deployments
//
// With sentinels or a Cluster, a Directory says which server has a key, and that may change. Each server has a supervisor
// as a single one has. When a key moves, the new server's supervisor gets its channel, and the old one keeps it until the
// new subscription is confirmed, or for a few seconds.
//
// # Locks
//
// Locks are taken in this order: the watcher, the Directory or a session, its channels or tracked keys, the
// throttle or the evidence. They are held only for map look-ups, and never during I/O. A wake is delivered without waiting.
package keyspace
