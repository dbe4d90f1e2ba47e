// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// countTimeout is how long the entries of one stream are counted at most.
const countTimeout = 200 * time.Millisecond

// Reader reads depths from Redis. It is safe for concurrent use.
type Reader struct {
	pool      *connection.Pool
	directory Directory
	// lengths reads the lengths of lists.
	lengths lengths
	// now is the clock that scores are compared with.
	now func() time.Time
}

// NewReader returns a reader that uses the connections of pool, and reads each key where directory says that it is.
func NewReader(pool *connection.Pool, directory Directory) *Reader {
	return &Reader{pool: pool, directory: directory, lengths: lengths{gather: longestGather}, now: time.Now}
}

// Observe returns the count of each queue, in the order of the queues. A key that does not exist is empty. It takes at
// most a second, plus up to two for each stream whose entries must be counted. For a deployment it takes at most two
// seconds altogether. The error wraps a [*failure.Error], or the cause of ctx if ctx ended; then nothing is known about
// any of the queues.
//
// All keys are read at the same moment. Only if the server rejects transactions, the keys are read one after the other,
// queues in progress first: a message that a worker takes in between may then not count, and a message that it gives
// back may count twice. If many entries of a stream must be counted one by one, the count may be lower than their
// number: see [Count.Partial].
//
// In a Cluster this applies to the keys of each slot. The slots are read one after the other, as without transactions.
//
// Scores are compared with the clock of the operator, not with that of the server.
func (r *Reader) Observe(ctx context.Context, source Source) ([]Count, error) {
	if source.Endpoint.Mode == auth.ModeStandalone { // Its keys do not move.
		return r.observeAll(ctx, source)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deploymentTimeout, slowDeployment())
	defer cancel()
	counts, err := r.observeAll(ctx, source)
	if !redirected(err) {
		return counts, err
	}
	// A reply has shown that a key is elsewhere by now. The keys are read once more, where they are.
	if err := r.pool.Wait(source.Tenant, func() { r.directory.Refresh(ctx, source.Endpoint) }); err != nil {
		return nil, err
	}
	if counts, err = r.observeAll(ctx, source); redirected(err) {
		return nil, moving(err)
	}
	return counts, err
}

// readFrom reads queues of one server.
func (r *Reader) readFrom(ctx context.Context, from server, source Source) ([]Count, error) {
	if len(source.Queues) == 1 && isList(source.Queues[0]) && !from.asking {
		return r.length(ctx, from.conn, source.Queues[0])
	}
	var found []reading
	err := from.conn.Do(ctx, func(ctx context.Context, client connection.Client) (err error) {
		found, err = r.readAll(ctx, client, from, source.Queues)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading queues: %w", err)
	}
	counts := make([]Count, len(found))
	for i, is := range found {
		if counts[i], err = complete(ctx, entries{server: from, key: source.Queues[i].Key}, is, source.CountLimit); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// complete returns the count of a queue, after it has counted the entries that are still to be counted.
func complete(ctx context.Context, of entries, is reading, limit int64) (Count, error) {
	server, began := memoryOf(of.conn), time.Now()
	if is.delivered.inDoubt() && server.pending.holds() {
		is.delivered = delivered{}
	}
	if is.backlog.most == 0 && !is.delivered.inDoubt() {
		return is.Count, nil
	}
	most := min(countTimeout, max(0, server.counting.Left()))
	err := count(ctx, server, &of, &is, limit, began.Add(most))
	server.counting.Charge(time.Since(began))
	if err != nil {
		return Count{}, fmt.Errorf("counting entries: %w", &KeyError{Key: of.key, Err: err})
	}
	return is.Count, nil
}

// count counts the backlog of a reading, and then the pending entries. If the server does not tell which entries are
// pending, or the first entry is too large for a reply, all of them count.
func count(ctx context.Context, server *memory, of *entries, is *reading, limit int64, until time.Time) (err error) {
	if is.delivered.inDoubt() {
		of.along = is.delivered.commands(of.key)
	}
	if is.backlog.most > 0 {
		if is.Waiting, is.Partial, err = of.count(ctx, is.backlog, limit, until); err != nil {
			return err
		}
	}
	if !is.delivered.inDoubt() {
		return nil
	}
	err = of.correctPending(ctx, is, limit, until)
	switch {
	case errors.Is(err, errPendingHidden):
		server.pending.note()
		return nil
	case errors.Is(err, errGroupGone), errors.Is(err, resp.ErrTooLarge):
		return nil
	}
	return err
}

// isList reports whether the queue is a list, for which one LLEN is enough.
func isList(q Queue) bool { return q.Type == List || q.Type == "" }

// length is Observe for one list, which is by far the most common case.
func (r *Reader) length(ctx context.Context, conn *connection.Conn, list Queue) ([]Count, error) {
	counts := make([]Count, 1)
	is := &counts[0].Waiting
	if list.InProgress {
		is = &counts[0].InProgress
	}
	err := conn.Do(ctx, func(ctx context.Context, client connection.Client) error {
		length, err := r.lengths.read(ctx, client, list.Key)
		*is = length
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the length of a list: %w", err)
	}
	return counts, nil
}

// readAll reads all queues, in a transaction if the server allows it.
func (r *Reader) readAll(ctx context.Context, client connection.Client, from server, queues []Queue) ([]reading, error) {
	asked := newBatch(queues, r.now())
	if len(asked.commands) < 2 || from.asking || memoryOf(from.conn).transactions.holds() {
		return asked.withoutTransaction(ctx, client, from)
	}
	replies, refusal, err := transaction(ctx, client, asked.commands)
	switch {
	case err != nil:
		return nil, err
	case refusal == nil:
		return asked.readings(replies)
	}
	// The server has rejected the transaction or one of the commands. Without a transaction, the error shows which
	// command it was. A server that is only busy will take the next transaction.
	found, err := asked.withoutTransaction(ctx, client, from)
	if err == nil && failure.IsUnsupported(refusal) {
		memoryOf(from.conn).transactions.note()
	}
	return found, err
}
