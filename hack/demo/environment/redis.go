// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// answerTimeout is the timeout of each command.
const answerTimeout = 2 * time.Second

// Redis is the Redis that the demo uses.
type Redis struct {
	// Address is host:port.
	Address string
	// Prefix is the prefix of all keys of the demo.
	Prefix string
	// Emulated is the server that the demo has started. It is nil for the user's Redis, on which the demo only uses its
	// own keys.
	Emulated *redistest.Emulated

	client *redis.Client
}

// startRedis starts an emulated Redis that ends with the demo.
func startRedis() (*Redis, error) {
	started, err := redistest.StartEmulated()
	if err != nil {
		return nil, err
	}
	return &Redis{Address: started.Addr(), Emulated: started, client: connect(started.Addr())}, nil
}

// useRedis connects to the user's Redis. All keys of the demo have a random prefix.
func useRedis(ctx context.Context, address string) (*Redis, error) {
	prefix := "scaledjob-demo-" + strings.ToLower(rand.Text()[:8]) + ":"
	r := &Redis{Address: address, Prefix: prefix, client: connect(address)}
	if err := r.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to Redis at %s: %w", address, err), r.client.Close())
	}
	return r, nil
}

func connect(address string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  address,
		MaxRetries:            -1, // a push whose reply was lost is not repeated
		DialerRetries:         1,
		DialTimeout:           answerTimeout,
		ReadTimeout:           answerTimeout,
		WriteTimeout:          answerTimeout,
		ContextTimeoutEnabled: true,
	})
}

// Describe describes the Redis in use in a few words.
func (r *Redis) Describe() string {
	if r.Emulated != nil {
		return "emulated; REDIS=host:port takes a real one"
	}
	return fmt.Sprintf("your own at %s, keys %s*", r.Address, r.Prefix)
}

// Push sends one command per message, as many producers would do, in one pipeline.
func (r *Redis) Push(ctx context.Context, key string, messages int) error {
	_, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range messages {
			pipe.RPush(ctx, key, fmt.Sprintf("message-%d", i+1))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pushing %d messages to %s: %w", messages, key, err)
	}
	return nil
}

func (r *Redis) depth(ctx context.Context, key string) (int64, error) {
	depth, err := r.client.LLen(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("reading the depth of %s: %w", key, err)
	}
	return depth, nil
}

// take removes up to this many messages. An empty queue is not an error.
func (r *Redis) take(ctx context.Context, key string, messages int64) error {
	err := r.client.LPopCount(ctx, key, int(messages)).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// stop stops the emulated Redis, or removes the keys of the demo from the user's Redis.
func (r *Redis) stop(ctx context.Context, scaledJobs []*scaledjobv1.ScaledJob) error {
	if r.Emulated != nil {
		return errors.Join(r.client.Close(), r.Emulated.Stop())
	}
	var errs []error
	for _, scaledJob := range scaledJobs {
		errs = append(errs, r.client.Del(ctx, scaledJob.Spec.QueueName).Err())
	}
	return errors.Join(append(errs, r.client.Close())...)
}
