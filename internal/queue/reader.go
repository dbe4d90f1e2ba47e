// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// countTimeout is for how long the entries of a stream are counted at most.
const countTimeout = 200 * time.Millisecond

// Reader reads depths from Redis. It is safe for concurrent use.
type Reader struct {
	pool *connection.Pool
	// refusals are the endpoints that refuse transactions.
	refusals refusals
	// budgets are the endpoints' times for counting.
	budgets budgets
	// now is the clock that scores are compared with.
	now func() time.Time
}

// NewReader returns a reader that uses the connections of pool.
func NewReader(pool *connection.Pool) *Reader { return &Reader{pool: pool, now: time.Now} }

// Observe returns what each of the queues holds, in their order; a key that does not exist holds
// nothing. It takes a second at most, and another where entries have to be counted. After an
// error, a [*rediserror.Error] unless ctx ended, all of it is unknown.
//
// All is seen at one moment. Only where the server refuses transactions one key is seen after the
// other, those in progress first: a message that is taken meanwhile may then count nowhere, and
// one that is given back twice. Entries of a stream that have to be counted one by one may be told
// as fewer than there are, if there are many.
//
// Whether a member of a sorted set is due is judged by the clock of the operator, not by that of
// the server.
func (r *Reader) Observe(ctx context.Context, source Source) ([]Count, error) {
	if len(source.Queues) == 1 && isList(source.Queues[0]) {
		return r.length(ctx, source)
	}
	conn := r.pool.ConnFor(source.Tenant, source.Endpoint, source.Database)
	var found []reading
	err := conn.Do(ctx, func(ctx context.Context, client redis.Cmdable) (err error) {
		found, err = r.readAll(ctx, client, source)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading queues: %w", err)
	}
	counts := make([]Count, len(found))
	for i, is := range found {
		counts[i] = is.Count
		if is.backlog.most == 0 {
			continue
		}
		began := time.Now()
		spent := min(countTimeout, r.budgets.left(source.Endpoint))
		counts[i].Waiting, counts[i].Partial, err = countBacklog(ctx, conn, source.Queues[i].Key, is.backlog, source.CountLimit, began.Add(spent))
		r.budgets.spend(source.Endpoint, time.Since(began))
		if err != nil {
			return nil, fmt.Errorf("counting entries: %w", &KeyError{Key: source.Queues[i].Key, Err: err})
		}
	}
	return counts, nil
}

// isList reports whether the length of a list is all there is to know.
func isList(q Queue) bool { return q.Type == List || q.Type == "" }

// length is Observe for one list, which is what nearly all have.
func (r *Reader) length(ctx context.Context, source Source) ([]Count, error) {
	counts := make([]Count, 1)
	is := &counts[0].Waiting
	if source.Queues[0].InProgress {
		is = &counts[0].InProgress
	}
	err := r.pool.ConnFor(source.Tenant, source.Endpoint, source.Database).Do(ctx, func(ctx context.Context, client redis.Cmdable) error {
		length, err := client.LLen(ctx, source.Queues[0].Key).Result()
		if err == nil && length < 0 {
			err = errNegative
		}
		*is = length
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the length of a list: %w", err)
	}
	return counts, nil
}

// readAll reads all queues, in a transaction if the server lets us.
func (r *Reader) readAll(ctx context.Context, client redis.Cmdable, source Source) ([]reading, error) {
	asked := newInquiry(source.Queues, r.now())
	if len(asked.commands) < 2 || r.refusals.has(source.Endpoint) {
		return asked.plainly(ctx, client)
	}
	replies, refused, err := transaction(ctx, client, asked.commands)
	switch {
	case err != nil:
		return nil, err
	case !refused:
		return asked.readings(replies)
	}
	// Either transactions are refused, or one of the commands is: then this tells which, and why.
	found, err := asked.plainly(ctx, client)
	if err == nil {
		r.refusals.add(source.Endpoint)
	}
	return found, err
}
