// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracking wakes those who watch a Redis key when it may have changed, by CLIENT TRACKING: a connection that has
// read a key is told once when the key changes.
//
// A key is armed by a read of its length. A change disarms it; then it is read again, and the reply wakes. So whoever
// is woken reads later than the key was armed, and every later change is told again.
//
//	           taken for sending          the reply: wakes
//	unarmed ─────────────────────► arming ──────────────────► armed
//	   ▲  ▲                          │ an error reply            │
//	   │  └──── after a while ─── refused                        │
//	   └──────────── a change was told, or the session has ended ┘
//
// # The files
//
//	tracker.go   one per database: runs one session after the other, and waits longer between short ones
//	session.go   one connection: reads and PINGs, their replies, and what the server tells
//	keys.go      the keys, who watches them, and the state of each
//
// docs/decisions/0015-tracking-keys.md says why no change is missed.
//
// # Locks
//
// Locks are taken in this order: a session, its keys, the coalescers. None is held during I/O.
package tracking
