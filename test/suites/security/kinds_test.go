// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// kind is one of queues: how it is named, and what a message is.
type kind struct {
	name  string
	entry func(key string) scaledjobv1.Queue
	push  func(ctx context.Context, client redis.Cmdable, key string, n int) error
	// documented is how the row of the table in docs/how-to/queues.md begins that has the commands which reading takes.
	documented string
}

// group is the consumer group of streams that have one.
const group = "workers"

// list is the kind that most tests use.
var list = kind{
	name:  "List",
	entry: entry(scaledjobv1.QueueList),
	push: func(ctx context.Context, client redis.Cmdable, key string, n int) error {
		return client.LPush(ctx, key, n).Err()
	},
	documented: "`List`",
}

// otherKinds are all but lists.
func otherKinds() []kind {
	return []kind{
		{"Set", entry(scaledjobv1.QueueSet), func(ctx context.Context, client redis.Cmdable, key string, n int) error {
			return client.SAdd(ctx, key, n).Err()
		}, "`Set`"},
		{"Hash", entry(scaledjobv1.QueueHash), func(ctx context.Context, client redis.Cmdable, key string, n int) error {
			return client.HSet(ctx, key, n, "message").Err()
		}, "`Hash`"},
		{"SortedSet", entry(scaledjobv1.QueueSortedSet), addMember(time.Now()), "`SortedSet`, `window: All`"},
		{"SortedSet, Due", window(scaledjobv1.WindowDue), addMember(time.Now().Add(-time.Hour)), "`SortedSet`, `window: Due`"},
		{"SortedSet, Live", window(scaledjobv1.WindowLive), addMember(time.Now().Add(time.Hour)), "`SortedSet`, `window: Live`"},
		{"Stream", entry(scaledjobv1.QueueStream), addEntry, "`Stream`"},
		{"Stream with a group", groupEntry, addForGroup, "`Stream` with `consumerGroup`"},
	}
}

func entry(of scaledjobv1.QueueType) func(key string) scaledjobv1.Queue {
	return func(key string) scaledjobv1.Queue { return scaledjobv1.Queue{Name: key, Type: of} }
}

func window(w scaledjobv1.SortedSetWindow) func(key string) scaledjobv1.Queue {
	return func(key string) scaledjobv1.Queue {
		return scaledjobv1.Queue{
			Name: key, Type: scaledjobv1.QueueSortedSet, SortedSet: &scaledjobv1.SortedSetQueue{Window: w},
		}
	}
}

func groupEntry(key string) scaledjobv1.Queue {
	return scaledjobv1.Queue{
		Name: key, Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: group},
	}
}

func addMember(score time.Time) func(context.Context, redis.Cmdable, string, int) error {
	return func(ctx context.Context, client redis.Cmdable, key string, n int) error {
		return client.ZAdd(ctx, key, redis.Z{Score: float64(score.Unix()), Member: n}).Err()
	}
}

func addEntry(ctx context.Context, client redis.Cmdable, key string, n int) error {
	return client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{"message", n}}).Err()
}

// addForGroup makes the group with the first message.
func addForGroup(ctx context.Context, client redis.Cmdable, key string, n int) error {
	if n == 1 {
		if err := client.XGroupCreateMkStream(ctx, key, group, "0").Err(); err != nil {
			return err
		}
	}
	return addEntry(ctx, client, key, n)
}
