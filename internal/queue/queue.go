// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue reads how many messages wait in a Redis queue.
package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// Source names a queue: a list, by its key, in database 0 of a server. It is comparable.
type Source struct {
	// Endpoint is the server.
	Endpoint redisconn.Endpoint
	// Key is the name of the list, as raw bytes.
	Key string
}

// errNegative is the cause of the error for a length no list can have.
var errNegative = errors.New("the server reports a negative length")

// Reader reads depths from Redis. It is safe for concurrent use.
type Reader struct {
	pool *redisconn.Pool
}

// NewReader returns a reader that uses the connections of pool.
func NewReader(pool *redisconn.Pool) *Reader { return &Reader{pool: pool} }

// Observe returns how many messages wait in the list; a key that does not exist has none.
// It takes a second at most. After an error, a [*redisconn.Error] unless ctx ended,
// the depth is unknown.
func (r *Reader) Observe(ctx context.Context, source Source) (int64, error) {
	var depth int64
	err := r.pool.Conn(source.Endpoint).Do(ctx, func(ctx context.Context, client redis.Cmdable) error {
		var err error
		depth, err = client.LLen(ctx, source.Key).Result()
		if err == nil && depth < 0 {
			err = errNegative
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reading the length of a list: %w", err)
	}
	return depth, nil
}
