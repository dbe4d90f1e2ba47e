// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package node watches the keys of one database of one Redis server, and wakes those who watch a key when it may have
// changed.
//
// A [Node] has one connection and one table of keys. Each key has two columns, one for each way in which a server
// reports changes:
//
//	subscription   the channel __keyspace@<db>__:<key> of keyspace notifications
//	               absent → subscribing → present → unsubscribing → absent; or denied
//	reading        client tracking: the server reports the next change of a key after its length was read
//	               invalid → reading → valid → invalid; or refused
//
// In both, a beginning wakes: a read after it finds everything that was pushed before it, and a later push is reported.
// So does the end of either. Nothing that a server sends is more than a hint to read the key.
//
// # One flight at a time
//
// The sender sends all commands that are due at once, and the next ones when all of these are answered. Replies come in
// the order of the commands, so each belongs to the oldest command without a reply. Messages, which may come between
// them, begin with their kind. One forbidden channel makes a server reject a whole SUBSCRIBE, so a rejected one is
// repeated in halves until the forbidden channels are alone.
//
// # The files
//
//	node.go          who watches which key; one connection after the other
//	session.go       one connection, and what comes on it
//	flight.go        what is sent
//	subscription.go  the first column
//	reading.go       the second column
//	flood.go         too many messages
//	events.go        what each event means for a key
//	settings.go      which events the server is configured to publish
//
// # One lock
//
// The lock of a Node guards its table and its session. It is held for look-ups in maps only, never during I/O, so the
// receiver, which takes it for each message, never waits for the network, and callers have their answer at once. That
// is why the table belongs to a lock and not to a goroutine.
package node
