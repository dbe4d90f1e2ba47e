// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"context"
	"math"

	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Group is the consumer group of streams that have one.
const Group = "workers"

// QueueKind is a kind of queue: how a ScaledJob names it, but for the key, and what adds the message of this number to
// it.
type QueueKind struct {
	Queue scaledjobv1.Queue
	Add   func(ctx context.Context, to redis.Cmdable, key string, number int) error
}

// QueueKinds are all kinds. In those with a window, there is also what does not count.
func QueueKinds() map[string]QueueKind {
	return map[string]QueueKind{
		"List": {scaledjobv1.Queue{Type: scaledjobv1.QueueList}, func(ctx context.Context, to redis.Cmdable, key string, number int) error {
			return to.RPush(ctx, key, number).Err()
		}},
		"Stream": {scaledjobv1.Queue{Type: scaledjobv1.QueueStream}, addEntry},
		"StreamWithGroup": {
			scaledjobv1.Queue{Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: Group}},
			func(ctx context.Context, to redis.Cmdable, key string, number int) error {
				_ = to.XGroupCreateMkStream(ctx, key, Group, "0").Err() // It may be there.
				return addEntry(ctx, to, key, number)
			},
		},
		"SortedSet": {scaledjobv1.Queue{Type: scaledjobv1.QueueSortedSet}, func(ctx context.Context, to redis.Cmdable, key string, number int) error {
			return to.ZAdd(ctx, key, redis.Z{Score: math.MaxFloat64, Member: number}).Err()
		}},
		"SortedSetDue": {scored(scaledjobv1.WindowDue), func(ctx context.Context, to redis.Cmdable, key string, number int) error {
			return to.ZAdd(ctx, key, redis.Z{Score: float64(number), Member: number}, redis.Z{Score: math.Inf(1), Member: "never"}).Err()
		}},
		"SortedSetLive": {scored(scaledjobv1.WindowLive), func(ctx context.Context, to redis.Cmdable, key string, number int) error {
			return to.ZAdd(ctx, key, redis.Z{Score: math.Inf(1), Member: number}, redis.Z{Score: 1, Member: "over"}).Err()
		}},
		"Set": {scaledjobv1.Queue{Type: scaledjobv1.QueueSet}, func(ctx context.Context, to redis.Cmdable, key string, number int) error {
			return to.SAdd(ctx, key, number).Err()
		}},
		"Hash": {scaledjobv1.Queue{Type: scaledjobv1.QueueHash}, func(ctx context.Context, to redis.Cmdable, key string, number int) error {
			return to.HSet(ctx, key, number, "message").Err()
		}},
	}
}

// scored is a sorted set with scores in milliseconds.
func scored(window scaledjobv1.SortedSetWindow) scaledjobv1.Queue {
	return scaledjobv1.Queue{
		Type:      scaledjobv1.QueueSortedSet,
		SortedSet: &scaledjobv1.SortedSetQueue{Window: window, ScoreUnit: scaledjobv1.ScoreMilliseconds},
	}
}

func addEntry(ctx context.Context, to redis.Cmdable, key string, number int) error {
	return to.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{"message", number}}).Err()
}
