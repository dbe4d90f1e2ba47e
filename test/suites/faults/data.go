// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// queueFaults are those of one queue.
func queueFaults() []Fault { return slices.Concat(keyFaults(), flagFaults()) }

// movedMessages is how many messages come to a key at once without being pushed.
const movedMessages = 5

// keyFaults are what happens to keys without a push. While they last nobody polls
// but to see what the resync finds, and messages after it must be heard.
func keyFaults() []Fault {
	return append(moves(), removals("the resync finds it, creates no Job for it, and later messages are noticed", unannounced)...)
}

// trackedFaults are what happens to keys that the server tracks.
func trackedFaults() []Fault {
	const removed = "the server reports it, the operator creates no Job for it, and later messages are noticed"
	return tracked(slices.Concat(moves(), removals(removed, announced), []Fault{{
		Name:        "a key of the same name in another database",
		Promise:     "the operator creates no Job for it, and later messages are noticed",
		strikeFirst: strikeNamesake,
	}}))
}

// tracked are the faults while keys are tracked.
func tracked(faults []Fault) []Fault {
	for i := range faults {
		faults[i].Name += ", keys tracked"
	}
	return faults
}

// removals are changes after which the key is gone.
func removals(promise string, strike func(change func(context.Context, *Queue) error) QueueFault) []Fault {
	return []Fault{
		{Name: "FLUSHALL", Promise: promise, strikeFirst: strike(func(ctx context.Context, q *Queue) error {
			return q.target.command(ctx, "FLUSHALL")
		})},
		{Name: "expiry", Promise: promise, strikeFirst: strike(func(ctx context.Context, q *Queue) error {
			return errors.Join(q.target.command(ctx, "PEXPIRE", q.Queue, 1), q.awaitGone(ctx))
		})},
	}
}

// moves are changes after which the key has other messages.
func moves() []Fault {
	return []Fault{
		{Name: "SWAPDB", Promise: "the resync finds the messages of the other database", strikeFirst: strikeSwap},
		{
			Name:        "RENAME to the key, away and back",
			Promise:     "the operator notices each, and messages get their Jobs",
			strikeFirst: strikeRename,
		},
	}
}

// announced is for a change of a key that the server reports.
func announced(change func(context.Context, *Queue) error) QueueFault {
	return func(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(change(ctx, q), q.awaitDepth(ctx), meanwhile(ctx))
	}
}

// strikeNamesake has messages come to a key of the same name in another database.
func strikeNamesake(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		q.fillKey(ctx, q.Queue+":other"), q.target.command(ctx, "COPY", q.Queue+":other", q.Queue, "DB", 1),
		q.AwaitRest(ctx), q.awaitDepth(ctx), meanwhile(ctx))
}

// unannounced is for a change of a key that no notification reports.
func unannounced(change func(context.Context, *Queue) error) QueueFault {
	return func(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(
			q.unnoticed(ctx, func(ctx context.Context) error { return change(ctx, q) }),
			q.polled(ctx, q.awaitDepth),
			meanwhile(ctx))
	}
}

// awaitGone returns once the server has no such key any more.
func (q *Queue) awaitGone(ctx context.Context) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		keys, err := q.Redis.Exists(ctx, q.Queue).Result()
		if err == nil && keys != 0 {
			err = fmt.Errorf("key %s is there", q.Queue)
		}
		return err
	})
}

// fillKey makes a list of messages at a key nobody watches.
func (q *Queue) fillKey(ctx context.Context, key string) error {
	for range movedMessages {
		if err := q.target.command(ctx, "LPUSH", key, "message"); err != nil {
			return err
		}
	}
	return nil
}

// allow has so many messages in the queue be right.
func (q *Queue) allow(messages int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depth = max(q.depth, messages)
	q.peak = max(q.peak, q.depth)
}

// strikeSwap swaps the database of the queue for one in which it is longer.
func strikeSwap(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	key := q.Queue
	other := key + ":other"
	q.allow(movedMessages)
	swap := func(ctx context.Context) error { return q.target.command(ctx, "SWAPDB", 0, 1) }
	return errors.Join(
		q.fillKey(ctx, other), q.target.command(ctx, "COPY", other, key, "DB", 1), q.AwaitRest(ctx),
		q.unnoticed(ctx, swap), q.polled(ctx, q.AwaitExpected), q.awaitDepth(ctx), meanwhile(ctx))
}

// strikeRename has a longer list take the place of the queue, leave, and come back longer still.
func strikeRename(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	key := q.Queue
	other := key + ":other"
	q.allow(2 * movedMessages)
	come := func(ctx context.Context) error { return q.target.command(ctx, "RENAME", other, key) }
	return errors.Join(
		q.fillKey(ctx, other), q.noticed(ctx, come), q.awaitDepth(ctx),
		q.target.command(ctx, "RENAME", key, other), q.awaitDepth(ctx),
		q.fillKey(ctx, other), q.noticed(ctx, come), q.awaitDepth(ctx), meanwhile(ctx))
}

// atNextQuestion is how soon the operator knows of other flags: it asks for them every five seconds.
const atNextQuestion = 7 * time.Second

// trackedMeanwhile is the name of a fault that costs nothing.
const trackedMeanwhile = `notify-keyspace-events "", keys tracked`

// flagFaults take away what the server needs to announce growth.
func flagFaults() []Fault {
	return []Fault{
		{
			Name:        `notify-keyspace-events ""`,
			Promise:     "polled meanwhile, and messages since the last poll get their Jobs when the flags are back",
			Within:      atNextQuestion,
			strikeFirst: strikeFlags,
		}, {
			Name:        trackedMeanwhile,
			Promise:     "the server tracks the keys meanwhile, and messages get their Jobs at once",
			Within:      atNextQuestion,
			strikeFirst: strikeTracked,
		},
	}
}

// strikeFlags has messages come while nothing is announced, and the operator can only poll.
func strikeFlags(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		q.target.permit(ctx, "-client|tracking"),
		q.target.setFlags(ctx, ""), q.await(ctx, polling(scaledjobv1.ReasonNotConfigured)),
		q.poll(ctx, meanwhile), q.deaf(ctx, meanwhile),
		q.target.setFlags(ctx, redistest.DefaultEvents))
}

// permit changes what the operator's user may do.
func (t *Target) permit(ctx context.Context, rules ...any) error {
	return t.command(ctx, append([]any{"ACL", "SETUSER", "default"}, rules...)...)
}

// strikeTracked has messages come and get their Jobs while nothing is announced.
func strikeTracked(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	return errors.Join(
		q.target.setFlags(ctx, ""), q.AwaitTracked(ctx),
		q.noticed(ctx, meanwhile), q.await(ctx, want{mode: scaledjobv1.ModeTracking}),
		meanwhile(ctx), q.target.setFlags(ctx, redistest.DefaultEvents))
}

// setFlags sets which events the server publishes.
func (t *Target) setFlags(ctx context.Context, flags string) error {
	return t.configure(ctx, verify.Parameter, flags)
}

// deaf has messages come of which the operator gets no notification, and nothing else reports them.
func (q *Queue) deaf(ctx context.Context, meanwhile Meanwhile) error {
	return errors.Join(q.AwaitRest(ctx), q.unnoticed(ctx, meanwhile))
}

// poll has messages come while the queue is polled, and waits for their Jobs.
func (q *Queue) poll(ctx context.Context, meanwhile Meanwhile) error {
	return errors.Join(q.deaf(ctx, meanwhile), q.polled(ctx, q.AwaitExpected))
}
