// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue reads how many messages wait in Redis queues, and how many are in progress.
//
// It reads all keys of a ScaledJob in one round trip and one transaction, so that a message which a worker moves from
// one key to another counts once. It needs further round trips only if the server does not know a number, or rejects
// the transaction. ScaledJobs with one list that are read at about the same time share a round trip.
package queue

import (
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// Type is the type of a key. The zero value means List.
type Type string

// The types.
const (
	List      Type = "List"
	Stream    Type = "Stream"
	SortedSet Type = "SortedSet"
	Set       Type = "Set"
	Hash      Type = "Hash"
)

// Window says which members of a sorted set count. The zero value means All.
type Window string

// The windows.
const (
	// All counts every member.
	All Window = "All"
	// Due counts the members with a score up to now.
	Due Window = "Due"
	// Live counts the members with a score later than now.
	Live Window = "Live"
)

// Unit is the unit of scores, which are Unix times. The zero value means Seconds.
type Unit string

// The units.
const (
	// Seconds may have a fraction.
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Nanoseconds  Unit = "ns"
	// BullMQ is milliseconds times 4096, plus a number below 4096.
	BullMQ Unit = "BullMQ"
)

// Queue is a key whose messages count. It is comparable.
type Queue struct {
	// Key is the name of the key, as raw bytes.
	Key  string
	Type Type
	// InProgress means that workers have taken its messages. It has no effect on a stream.
	InProgress bool
	// Group is the consumer group of a stream. If it is empty, all entries count as waiting.
	Group string
	// Window and Unit are for sorted sets.
	Window Window
	Unit   Unit
}

// Source has the queues of one server that are read together.
type Source struct {
	// Endpoint is the server, and Database the number of the database with the keys.
	Endpoint auth.Endpoint
	Database int
	// Tenant is whose limits apply: see [connection.Pool.ConnFor].
	Tenant string
	// Queues are the queues to read.
	Queues []Queue
	// CountLimit is the maximum number of entries of a stream to count one by one, which is necessary if the server
	// does not know how many its group has not read. If there are more, the count is this number.
	CountLimit int64
}

// Count is the number of messages in a queue.
type Count struct {
	// Waiting is how many messages no worker has taken. InProgress is how many a worker has taken and not finished.
	// Neither is negative.
	Waiting, InProgress int64
	// NextDue is when the next member of a sorted set with the window Due falls due. It is later than now. It is zero
	// if there is no such member, or if its score is not a time before the year 10000 (2262 for nanoseconds).
	NextDue time.Time
	// GroupMissing means that a stream has entries, but the consumer group does not exist. Then Waiting is 1.
	GroupMissing bool
	// Trimmed means that pending entries of a stream are older than its first entry, so that no worker can process them.
	// They do not count.
	Trimmed bool
	// Progress changes whenever the consumer group of a stream reads or acknowledges entries.
	Progress string
	// Partial means that more messages may wait, because not all entries were counted.
	Partial bool
}

// KeyError is the error of one key.
type KeyError struct {
	Key string
	Err error
}

// Error returns the key and the cause, for logs.
func (e *KeyError) Error() string { return fmt.Sprintf("key %q: %v", e.Key, e.Err) }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }
