// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue reads how many messages wait in Redis queues, and how many are being worked on.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// Type is the type of a key.
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

// Unit says what a score counts since 1970.
type Unit string

// The units.
const (
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
	// Endpoint is the server.
	Endpoint redisconn.Endpoint
	// Queues are what is read.
	Queues []Queue
	// CountLimit bounds how many entries of a stream are counted one by one, where the server does not know how many its group was not
	// given yet. More than that are told as that.
	CountLimit int64
}

// Count is how many messages a queue holds.
type Count struct {
	// Waiting is how many no worker has taken, and InProgress how many one has taken and not finished.
	Waiting, InProgress int64
	// NextDue is when the next member of a sorted set falls due, of the window Due; zero if there is none.
	NextDue time.Time
	// GroupMissing says that a stream holds entries and has no such group. Then one message is told as waiting.
	GroupMissing bool
}

// errNegative is the cause of the error for a length no queue can have.
var errNegative = errors.New("the server reports a negative length")

// Reader reads depths from Redis. It is safe for concurrent use.
type Reader struct {
	pool *redisconn.Pool
}

// NewReader returns a reader that uses the connections of pool.
func NewReader(pool *redisconn.Pool) *Reader { return &Reader{pool: pool} }

// Observe returns what each of the queues holds, in their order; a key that does not exist holds nothing. It takes a second at most.
// After an error, a [*redisconn.Error] unless ctx ended, all of it is unknown.
func (r *Reader) Observe(ctx context.Context, source Source) ([]Count, error) {
	counts := make([]Count, len(source.Queues))
	err := r.pool.Conn(source.Endpoint).Do(ctx, func(ctx context.Context, client redis.Cmdable) error {
		for i, queue := range source.Queues {
			depth, err := client.LLen(ctx, queue.Key).Result()
			if err == nil && depth < 0 {
				err = errNegative
			}
			if err != nil {
				return err
			}
			counts[i].Waiting = depth
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the length of a list: %w", err)
	}
	return counts, nil
}
