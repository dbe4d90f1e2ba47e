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
	"miracle.dev/scaledjob-operator/test/redistest"
)

const (
	// answerTimeout bounds each command.
	answerTimeout = 2 * time.Second
	// setting names what Redis announces to whom.
	setting = "notify-keyspace-events"
)

// server is a Redis that the demo has started.
type server interface {
	Addr() string
	Kill() error
	Restart(ctx context.Context) error
	Stop() error
}

// Redis is the Redis of the demo: one it has started, or the user's own.
type Redis struct {
	address string
	prefix  string // of all keys
	client  *redis.Client
	server  server // nil: the user's own
	events  *Events
}

// startRedis starts an emulated Redis that ends with the demo.
func startRedis(ctx context.Context) (*Redis, error) {
	started, err := redistest.StartEmulated(redistest.EmulatedOptions{})
	if err != nil {
		return nil, err
	}
	r := &Redis{address: started.Addr(), client: connect(started.Addr()), server: started}
	if r.events, err = newEvents(ctx, r.client); err != nil {
		return nil, errors.Join(err, r.stop(ctx, nil))
	}
	return r, nil
}

// useRedis connects to the user's Redis. All keys of the demo begin with a
// prefix that nobody else uses.
func useRedis(ctx context.Context, address string) (*Redis, error) {
	prefix := "scaledjob-demo-" + strings.ToLower(rand.Text()[:8]) + ":"
	r := &Redis{address: address, prefix: prefix, client: connect(address)}
	if err := r.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to Redis at %s: %w", address, err), r.client.Close())
	}
	// Without the right to the setting the demo does without.
	if events, err := newEvents(ctx, r.client); err == nil {
		r.events = events
	}
	return r, nil
}

func connect(address string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  address,
		MaxRetries:            -1, // a push whose answer was lost is not sent again
		DialerRetries:         1,
		DialTimeout:           answerTimeout,
		ReadTimeout:           answerTimeout,
		WriteTimeout:          answerTimeout,
		ContextTimeoutEnabled: true,
	})
}

// Address returns host:port.
func (r *Redis) Address() string { return r.address }

// Prefix returns what all keys of the demo begin with.
func (r *Redis) Prefix() string { return r.prefix }

// Owned reports whether the demo has started this Redis, and may kill it.
func (r *Redis) Owned() bool { return r.server != nil }

// Events returns the switch of the notifications, or nil without the right to
// switch them.
func (r *Redis) Events() *Events { return r.events }

// Describe says in a few words which Redis this is.
func (r *Redis) Describe() string {
	if r.Owned() {
		return "emulated; REDIS=host:port takes a real one"
	}
	return fmt.Sprintf("your own at %s, keys %s*", r.address, r.prefix)
}

// Kill ends a Redis that the demo has started, at once.
func (r *Redis) Kill() error { return r.server.Kill() }

// Start starts it again, empty, where it was.
func (r *Redis) Start(ctx context.Context) error { return r.server.Restart(ctx) }

// push sends one command for each message, as many producers would, but all
// without waiting for an answer.
func (r *Redis) push(ctx context.Context, key string, messages int) error {
	_, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range messages {
			pipe.RPush(ctx, key, fmt.Sprintf("message-%d", i+1))
		}
		return nil
	})
	return err
}

func (r *Redis) depth(ctx context.Context, key string) (int64, error) {
	return r.client.LLen(ctx, key).Result()
}

// take removes up to so many messages. No message is no error.
func (r *Redis) take(ctx context.Context, key string, messages int64) error {
	err := r.client.LPopCount(ctx, key, int(messages)).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// stop leaves the user's Redis as it was, and ends one that was started.
func (r *Redis) stop(ctx context.Context, scaledJobs []*scaledjobv1.ScaledJob) error {
	if r.Owned() {
		return errors.Join(r.client.Close(), r.server.Stop())
	}
	var errs []error
	if r.events != nil {
		errs = append(errs, r.events.restore(ctx))
	}
	for _, scaledJob := range scaledJobs {
		errs = append(errs, r.client.Del(ctx, scaledJob.Spec.QueueName).Err())
	}
	return errors.Join(append(errs, r.client.Close())...)
}
