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
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// QueueFault is a Fault that needs to know which queue it is about.
type QueueFault struct {
	Fault  // without its Strike
	strike queueStrike
}

// queueStrike is the Strike of a QueueFault.
type queueStrike func(ctx context.Context, q *Queue, lasting time.Duration, meanwhile Meanwhile) error

// Of returns the Fault of this queue.
func (f QueueFault) Of(q *Queue) Fault {
	fault := f.Fault
	fault.Strike = func(ctx context.Context, _ *Target, lasting time.Duration, meanwhile Meanwhile) error {
		return f.strike(ctx, q, lasting, meanwhile)
	}
	return fault
}

// QueueFaults returns all of them.
func QueueFaults() []QueueFault {
	return slices.Concat(keyFaults(), flagFaults())
}

// movedMessages is how many messages come to a key at once without being pushed.
const movedMessages = 5

// keyFaults are what happens to keys without a push. While they last nobody polls
// but to see what the resync finds, and messages after it must be heard.
func keyFaults() []QueueFault {
	const found = "the resync finds it, creates no Job for it, and later messages are noticed"
	return append(removals(found, unannounced),
		QueueFault{Fault{Name: "key overwritten by a string", Promise: found, Within: atNextAttempt}, strikeOverwrite},
		swap(), rename())
}

// trackedFaults are what happens to keys that the server tracks.
func trackedFaults() []QueueFault {
	all := append(removals("the server reports it, the operator creates no Job for it, and later messages are noticed", told), swap(), rename())
	for i := range all {
		all[i].Name += ", keys tracked"
	}
	return append(all, QueueFault{
		Fault{
			Name:    "a key of the same name in another database, keys tracked",
			Promise: "the operator creates no Job for it, and later messages are noticed",
			Within:  atNextAttempt,
		}, strikeNamesake,
	})
}

// removals are changes after which the key is gone.
func removals(promise string, strike func(change func(context.Context, *Queue) error) queueStrike) []QueueFault {
	removal := func(name string, change func(context.Context, *Queue) error) QueueFault {
		return QueueFault{Fault{Name: name, Promise: promise, Within: atNextAttempt}, strike(change)}
	}
	return []QueueFault{
		removal("FLUSHALL", func(ctx context.Context, q *Queue) error {
			return q.target.command(ctx, "FLUSHALL")
		}),
		removal("expiry", func(ctx context.Context, q *Queue) error {
			return errors.Join(q.target.command(ctx, "PEXPIRE", q.Queue, 1), q.awaitGone(ctx))
		}),
		removal("eviction", func(ctx context.Context, q *Queue) error {
			return errors.Join(
				q.target.configure(ctx, "maxmemory-policy", "allkeys-lru"), q.target.configure(ctx, "maxmemory", 1),
				q.awaitGone(ctx), q.target.configure(ctx, "maxmemory", 0))
		}),
	}
}

func swap() QueueFault {
	return QueueFault{Fault{
		Name: "SWAPDB", Promise: "the resync finds the messages of the other database", Within: atNextAttempt,
	}, strikeSwap}
}

func rename() QueueFault {
	return QueueFault{Fault{
		Name: "RENAME to the key and away", Promise: "the operator notices both", Within: atNextAttempt,
	}, strikeRename}
}

// told is for a change of a key that the server tells of.
func told(change func(context.Context, *Queue) error) queueStrike {
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

// unannounced is for a change of a key that no notification tells of.
func unannounced(change func(context.Context, *Queue) error) queueStrike {
	return func(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
		return errors.Join(
			q.unnoticed(ctx, func(ctx context.Context) error { return change(ctx, q) }),
			q.polled(ctx, q.awaitDepth),
			meanwhile(ctx))
	}
}

// awaitGone returns once the server has no such key any more.
func (q *Queue) awaitGone(ctx context.Context) error {
	return scene.Await(ctx, func(ctx context.Context) error {
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

// strikeOverwrite puts a string in the place of the list, and takes it away.
func strikeOverwrite(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	key := q.Queue
	return errors.Join(
		q.unnoticed(ctx, func(ctx context.Context) error { return q.target.command(ctx, "SET", key, "no list") }),
		q.polled(ctx, func(ctx context.Context) error { return q.awaitUnreadable(ctx, scaledjobv1.ReasonWrongType) }),
		q.target.command(ctx, "DEL", key), q.awaitDepth(ctx), meanwhile(ctx))
}

// strikeRename has a longer list take the place of the queue, and leave again.
func strikeRename(ctx context.Context, q *Queue, _ time.Duration, meanwhile Meanwhile) error {
	key := q.Queue
	other := key + ":other"
	q.allow(movedMessages)
	return errors.Join(
		q.fillKey(ctx, other), q.target.command(ctx, "RENAME", other, key), q.AwaitExpected(ctx), q.awaitDepth(ctx),
		q.target.command(ctx, "RENAME", key, other), q.awaitDepth(ctx), meanwhile(ctx))
}
