// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// batch has the commands that read several queues of one server.
type batch struct {
	queues []Queue
	now    time.Time
	// order has the indexes of the queues in the order in which they are read.
	order []int
	// commands has the commands for all queues in that order. ends has, for each queue, the index after its last
	// command.
	commands [][]any
	ends     []int
}

func newBatch(queues []Queue, now time.Time) batch {
	asked := batch{queues: queues, now: now, order: readingOrder(queues)}
	for _, at := range asked.order {
		asked.commands = append(asked.commands, queues[at].commands(now)...)
		asked.ends = append(asked.ends, len(asked.commands))
	}
	return asked
}

// readingOrder returns the indexes of the queues in the order in which they are read: queues in progress first. If they
// are not read at the same moment, a message that is taken between the reads may then count nowhere, but does not count
// twice.
func readingOrder(queues []Queue) (order []int) {
	for _, inProgress := range []bool{true, false} {
		for at, queue := range queues {
			if queue.InProgress == inProgress {
				order = append(order, at)
			}
		}
	}
	return order
}

// withoutTransaction sends the commands without a transaction.
func (b batch) withoutTransaction(ctx context.Context, client connection.Client, from server) ([]reading, error) {
	replies, err := from.read(ctx, client, b.commands)
	if err != nil {
		return nil, err
	}
	return b.readings(replies)
}

// readings parses the replies to all commands. The result is in the order of the queues.
func (b batch) readings(replies []any) ([]reading, error) {
	found := make([]reading, len(b.queues))
	begin := 0
	for n, at := range b.order {
		is, err := b.queues[at].read(replies[begin:b.ends[n]], b.now)
		if err != nil {
			return nil, &KeyError{Key: b.queues[at].Key, Err: err}
		}
		found[at] = is
		begin = b.ends[n]
	}
	return found, nil
}

// aborted is what the reply to a rejected EXEC begins with. The cause follows.
const aborted = "EXECABORT Transaction discarded because of: "

// transaction sends commands as one transaction, in one round trip, and returns their replies. If the server rejects
// the transaction, there are none, and refusal is what it says.
func transaction(ctx context.Context, client connection.Client, commands [][]any) (replies []any, refusal, err error) {
	all, err := client.Read(ctx, slices.Concat([][]any{{"multi"}}, commands, [][]any{{"exec"}})...)
	if err != nil {
		return nil, nil, err
	}
	for _, reply := range []any{all[0], all[len(all)-1]} {
		if rejection, ok := reply.(resp.Error); ok {
			return nil, resp.Error(strings.TrimPrefix(string(rejection), aborted)), nil
		}
	}
	replies, err = list(all[len(all)-1])
	if err != nil || len(replies) != len(commands) {
		return nil, nil, resp.ErrMalformed
	}
	return replies, nil, nil
}
