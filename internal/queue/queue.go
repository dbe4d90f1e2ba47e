// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue reads how many messages wait in Redis queues, and how many are being worked on.
//
// The keys of one server are read together, in one round trip and in one transaction, so that a
// message that a worker moves from one key to another counts once. There is a second round trip
// only where the server does not know a number, or refuses the transaction.
package queue

import (
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// Type is the type of a key. The zero value is a list.
type Type string

// The types.
const (
	List      Type = "List"
	Stream    Type = "Stream"
	SortedSet Type = "SortedSet"
	Set       Type = "Set"
	Hash      Type = "Hash"
)

// Window says which members of a sorted set count. The zero value is all of them.
type Window string

// The windows.
const (
	// All counts every member.
	All Window = "All"
	// Due counts the members with a score of now or earlier.
	Due Window = "Due"
	// Live counts the members with a score later than now.
	Live Window = "Live"
)

// Unit says what a score counts since 1970. The zero value is seconds.
type Unit string

// The units.
const (
	// Seconds may have a fraction.
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Nanoseconds  Unit = "ns"
	// BullMQ is milliseconds times 4096, plus a number below that.
	BullMQ Unit = "BullMQ"
)

// Queue is a key whose messages count. It is comparable.
type Queue struct {
	// Key is the name of the key, as raw bytes.
	Key  string
	Type Type
	// InProgress says that its messages were taken by a worker. It means nothing for a stream.
	InProgress bool
	// Group is the consumer group of a stream. Without one, all entries wait.
	Group string
	// Window and Unit are for a sorted set.
	Window Window
	Unit   Unit
}

// Source names the queues of one server that are read together.
type Source struct {
	// Endpoint is the server, and Database the number of the database that holds the keys.
	Endpoint auth.Endpoint
	Database int
	// Tenant is on whose behalf they are read.
	Tenant string
	// Queues are what is read.
	Queues []Queue
	// CountLimit bounds how many entries of a stream are counted one by one, where the server
	// does not know how many its group was not given yet. More than that are told as that.
	CountLimit int64
}

// Count is how many messages a queue holds.
type Count struct {
	// Waiting is how many no worker has taken, and InProgress how many one has taken and not
	// finished. Neither is negative.
	Waiting, InProgress int64
	// NextDue is when the next member of a sorted set falls due, of the window Due. It is later
	// than now, or zero if there is none, or none with a score that is a time before the year
	// 10000, or 2262 for nanoseconds.
	NextDue time.Time
	// GroupMissing says that a stream holds entries and has no such group. Then one message is
	// told as waiting.
	GroupMissing bool
	// Progress is another whenever the group of a stream was given entries, or has acknowledged some.
	Progress string
	// Partial says that more may be waiting: entries had to be counted one by one, and not all
	// of them were.
	Partial bool
}

// KeyError is that of one of several keys.
type KeyError struct {
	Key string
	Err error
}

// Error implements error.
func (e *KeyError) Error() string { return fmt.Sprintf("key %q: %v", e.Key, e.Err) }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }
