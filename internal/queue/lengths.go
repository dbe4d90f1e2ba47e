// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// roundTrips is how many round trips with lengths are under way to one database of a server. The reads that come
	// meanwhile share the next one, which takes much less CPU time than one for each.
	roundTrips = 4
	// longestGather is how long a read waits for that. If the server is far away, it takes no longer than without sharing.
	longestGather = 2 * time.Millisecond
)

// lengths reads the lengths of lists.
type lengths struct {
	// gather is how long a read waits to share a round trip.
	gather time.Duration

	mu sync.Mutex
	of map[connection.Client]*gathering
}

// gathering has the reads of one database.
type gathering struct {
	// users is how many reads there are.
	users int
	// turns has an element for each round trip that is under way.
	turns chan struct{}
	// next is the round trip that further reads join.
	next *round
}

// round is a round trip with the lengths of several lists. replies and err are there when done is closed.
type round struct {
	commands [][]any
	replies  []any
	err      error
	done     chan struct{}
}

// read returns the length of a list. ctx must have a deadline. Each read may send the next round trip, for all that
// have joined it, so that none depends on another one that gives up.
func (l *lengths) read(ctx context.Context, client connection.Client, key string) (int64, error) {
	from, joined, at := l.join(client, key)
	defer l.leave(client)
	waited := time.NewTimer(l.gather)
	defer waited.Stop()
	mine := false
	select {
	case from.turns <- struct{}{}:
		mine = l.send(ctx, client, from, joined, func() { <-from.turns })
	case <-waited.C:
		mine = l.send(ctx, client, from, joined, func() { /* It has no turn. */ })
	case <-joined.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case <-joined.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	switch {
	case joined.err == nil:
		return number(joined.replies[at])
	case !mine && failure.IsTimeout(joined.err):
		// The server had the time of the sender, which may be less than that of this read.
		return 0, fmt.Errorf("%w: %w", failure.ErrBusy, joined.err)
	default:
		return 0, joined.err
	}
}

// join adds a read to the next round trip, and returns its index in that.
func (l *lengths) join(client connection.Client, key string) (*gathering, *round, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[connection.Client]*gathering{}
	}
	from := l.of[client]
	if from == nil {
		from = &gathering{turns: make(chan struct{}, roundTrips), next: newRound()}
		l.of[client] = from
	}
	from.users++
	from.next.commands = append(from.next.commands, []any{"llen", key})
	return from, from.next, len(from.next.commands) - 1
}

func newRound() *round { return &round{err: errUnread, done: make(chan struct{})} }

// leave ends a read.
func (l *lengths) leave(client connection.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.of[client]
	if from.users--; from.users == 0 {
		delete(l.of, client)
	}
}

// send sends a round trip, unless another read has, and gives back the turn for it. It reports whether it did. The
// round trip has the deadline of this read, but is not canceled with it, because others wait for it too.
func (l *lengths) send(
	ctx context.Context, client connection.Client, from *gathering, joined *round, giveBack func(),
) (sent bool) {
	defer giveBack()
	l.mu.Lock()
	isNext := from.next == joined
	if isNext {
		from.next = newRound()
	}
	l.mu.Unlock()
	if !isNext {
		return false
	}
	defer close(joined.done)
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	joined.replies, joined.err = client.Read(ctx, joined.commands...)
	return true
}
