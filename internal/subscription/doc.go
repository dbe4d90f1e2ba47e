// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package subscription keeps a connection to Redis subscribed to the channels that somebody
// watches. It knows what Redis answers to SUBSCRIBE, and not what the messages mean.
//
// A [Set] says who watches which channel, and how far the subscription to it has come. It does
// no I/O. A [Session] is one connection: it takes from the set what to send, and tells the set
// what was answered.
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
// The end of a session makes all channels absent but the denied ones, which no new session is
// to try sooner. A channel that nobody watches is forgotten unless an answer is to come: Redis
// answers a SUBSCRIBE although nobody wants it any more, and until it has answered an
// UNSUBSCRIBE, messages come. Who begins to watch a channel at that moment waits for the
// confirmation of a SUBSCRIBE that follows: nothing else shows that no message was missed.
//
// # One command at a time
//
// An error reply does not tell to which command it belongs, and one forbidden channel makes
// Redis refuse a whole SUBSCRIBE. So the next command is sent when the last one is answered in
// full, and a SUBSCRIBE that is refused for want of permission is sent again in halves, until
// the forbidden channels are alone.
//
// # Locks
//
// The lock of a session is taken before that of its set, and that before what mark takes.
// None is held during I/O, so whoever receives never waits for the network.
package subscription
