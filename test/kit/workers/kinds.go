// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// Kind is how workers take and finish the messages of a queue. No two messages have the same body.
type Kind interface {
	// Count has the ScaledJob count the messages that belong to this way.
	Count(spec *scaledjobv1.ScaledJobSpec)
	// Push adds a message to the queue.
	Push(ctx context.Context, body string) error
	// Take gives a worker the oldest message that nobody has taken, if there is one.
	Take(ctx context.Context, worker string) (message Message, found bool, err error)
	// Left is how many messages wait or are taken and not finished, as far as Redis knows.
	Left(ctx context.Context) (int64, error)
}

// Message is one that a worker has taken.
type Message struct {
	Body string
	// Finish does away with it, when the work is done.
	Finish func(context.Context) error
}

// reliableList moves a message to a second list, and removes it from there at the end.
type reliableList struct {
	redis             *redis.Client
	queue, processing string
}

// ReliableList has workers move a message from the list to another, queue:processing,
// and remove it from there as their last act.
func ReliableList(client *redis.Client, queue string) Kind {
	return reliableList{client, queue, queue + ":processing"}
}

func (k reliableList) Count(spec *scaledjobv1.ScaledJobSpec) {
	spec.QueueName = ""
	spec.Queues = []scaledjobv1.Queue{
		{Name: k.queue, Role: scaledjobv1.RoleWaiting},
		{Name: k.processing, Role: scaledjobv1.RoleInProgress},
	}
}

func (k reliableList) Push(ctx context.Context, body string) error {
	return pushTo(ctx, k.redis, k.queue, body)
}

func (k reliableList) Take(ctx context.Context, _ string) (Message, bool, error) {
	body, err := k.redis.LMove(ctx, k.queue, k.processing, "RIGHT", "LEFT").Result()
	return taken(body, err, func(ctx context.Context) error {
		return k.redis.LRem(ctx, k.processing, 1, body).Err()
	})
}

func (k reliableList) Left(ctx context.Context) (int64, error) {
	waiting, err := k.redis.LLen(ctx, k.queue).Result()
	if err != nil {
		return 0, fmt.Errorf("counting messages: %w", err)
	}
	inProgress, err := k.redis.LLen(ctx, k.processing).Result()
	return waiting + inProgress, err
}

// consumerGroup reads a stream.
type consumerGroup struct {
	redis  *redis.Client
	stream string
}

// ConsumerGroup has workers read an entry of the stream for their group, and
// acknowledge it as their last act. It makes the stream and the group.
func ConsumerGroup(ctx context.Context, client *redis.Client, stream string) (Kind, error) {
	if err := client.XGroupCreateMkStream(ctx, stream, sjtest.Group, "0").Err(); err != nil {
		return nil, fmt.Errorf("making a consumer group: %w", err)
	}
	return consumerGroup{client, stream}, nil
}

func (k consumerGroup) Count(spec *scaledjobv1.ScaledJobSpec) {
	spec.QueueName = ""
	spec.Queues = []scaledjobv1.Queue{{
		Name: k.stream, Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: sjtest.Group},
	}}
}

// field is that of an entry which has the body.
const field = "body"

func (k consumerGroup) Push(ctx context.Context, body string) error {
	if err := k.redis.XAdd(ctx, &redis.XAddArgs{Stream: k.stream, Values: []string{field, body}}).Err(); err != nil {
		return fmt.Errorf("adding to a stream: %w", err)
	}
	return nil
}

func (k consumerGroup) Take(ctx context.Context, worker string) (Message, bool, error) {
	const noBlock = -1 // without waiting for an entry
	streams, err := k.redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: sjtest.Group, Consumer: worker, Streams: []string{k.stream, ">"}, Count: 1, Block: noBlock,
	}).Result()
	if err != nil {
		return taken("", err, nil)
	}
	entry := streams[0].Messages[0]
	body, _ := entry.Values[field].(string)
	return taken(body, nil, func(ctx context.Context) error {
		return k.redis.XAck(ctx, k.stream, sjtest.Group, entry.ID).Err()
	})
}

func (k consumerGroup) Left(ctx context.Context) (int64, error) {
	groups, err := k.redis.XInfoGroups(ctx, k.stream).Result()
	if err != nil {
		return 0, fmt.Errorf("counting messages: %w", err)
	}
	var left int64
	for _, g := range groups {
		left += g.Lag + g.Pending
	}
	return left, nil
}

// popAtStart pops from a list.
type popAtStart struct {
	redis *redis.Client
	queue string
}

// PopAtStart has workers pop a message off the list. While they work on it Redis knows nothing of it.
func PopAtStart(client *redis.Client, queue string) Kind { return popAtStart{client, queue} }

func (k popAtStart) Count(spec *scaledjobv1.ScaledJobSpec) {
	spec.QueueName, spec.Queues = k.queue, nil
}

func (k popAtStart) Push(ctx context.Context, body string) error {
	return pushTo(ctx, k.redis, k.queue, body)
}

func (k popAtStart) Take(ctx context.Context, _ string) (Message, bool, error) {
	body, err := k.redis.RPop(ctx, k.queue).Result()
	return taken(body, err, func(context.Context) error { return nil })
}

func (k popAtStart) Left(ctx context.Context) (int64, error) {
	return k.redis.LLen(ctx, k.queue).Result()
}

// removeAtEnd leaves a message in the list until the end.
type removeAtEnd struct {
	popAtStart

	takenSet string
}

// RemoveAtEnd has workers leave their message in the list, where they tell by a set
// that it is theirs, and remove it as their last act.
func RemoveAtEnd(client *redis.Client, queue string) Kind {
	return removeAtEnd{popAtStart{client, queue}, queue + ":taken"}
}

func (k removeAtEnd) Take(ctx context.Context, _ string) (Message, bool, error) {
	bodies, err := k.redis.LRange(ctx, k.queue, 0, -1).Result()
	if err != nil {
		return taken("", err, nil)
	}
	for _, body := range slices.Backward(bodies) {
		added, err := k.redis.SAdd(ctx, k.takenSet, body).Result()
		if err != nil {
			return taken("", err, nil)
		}
		if added == 1 {
			return taken(body, nil, func(ctx context.Context) error { return k.redis.LRem(ctx, k.queue, 1, body).Err() })
		}
	}
	return Message{}, false, nil
}

// pushTo adds to a list.
func pushTo(ctx context.Context, client *redis.Client, list, body string) error {
	if err := client.LPush(ctx, list, body).Err(); err != nil {
		return fmt.Errorf("pushing: %w", err)
	}
	return nil
}

// taken is what became of taking a message.
func taken(body string, err error, finish func(context.Context) error) (message Message, found bool, _ error) {
	if errors.Is(err, redis.Nil) {
		return Message{}, false, nil
	}
	if err != nil {
		return Message{}, false, fmt.Errorf("taking a message: %w", err)
	}
	return Message{Body: body, Finish: finish}, true, nil
}
