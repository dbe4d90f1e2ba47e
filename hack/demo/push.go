// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// result is what came of one push.
type result struct {
	messages int
	due      int           // Jobs
	created  int           // Jobs
	first    time.Duration // from the push until the first Job was seen
}

// push pushes messages, shows how soon the Jobs appear, and returns when all of
// them have finished and no other has followed.
func (d *demo) push(ctx context.Context, messages int) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took more than %s", patience))
	defer cancel()
	r := result{messages: messages, due: due(messages, int(d.sample.Spec.Threshold))}
	before := len(d.jobs.sightings(0))
	d.screen.piece("  %-14s%9d", count(messages, "message"), r.due)

	begin := time.Now()
	if err := pushMessages(ctx, d.env.redis.Client(), d.sample.Spec.QueueName, messages); err != nil {
		return r, fmt.Errorf("pushing %s: %w", count(messages, "message"), err)
	}
	if err := d.jobs.awaitSeen(ctx, before+r.due); err != nil {
		return r, fmt.Errorf("waiting for %s, of which %d came: %w", count(r.due, "Job"), len(d.jobs.sightings(before)), err)
	}
	seen := d.jobs.sightings(before)
	r.first = seen[0].Sub(begin)
	d.screen.piece("%13s%13s", short(r.first), short(seen[r.due-1].Sub(begin)))

	if err := d.jobs.awaitFinished(ctx); err != nil {
		return r, fmt.Errorf("waiting for the Jobs to finish: %w", err)
	}
	workedOff := time.Since(begin)
	if err := pause(ctx, quiet); err != nil {
		return r, err
	}
	r.created = len(d.jobs.sightings(before))
	d.screen.piece("%10d%13s", r.created, short(workedOff))
	d.screen.end()
	return r, d.checkEmpty(ctx)
}

// due returns how many Jobs that many messages are for.
func due(messages, threshold int) int {
	return (messages + threshold - 1) / threshold
}

// pushMessages sends one command for each message, as many producers would, but
// all without waiting for an answer.
func pushMessages(ctx context.Context, client *redis.Client, queue string, messages int) error {
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range messages {
			pipe.RPush(ctx, queue, fmt.Sprintf("photo-%d.jpg", i+1))
		}
		return nil
	})
	return err
}

// checkEmpty fails if messages are left although all Jobs have finished.
func (d *demo) checkEmpty(ctx context.Context) error {
	left, err := d.env.redis.Client().LLen(ctx, d.sample.Spec.QueueName).Result()
	if err != nil {
		return fmt.Errorf("reading the depth of the queue: %w", err)
	}
	if left > 0 {
		return errors.New("all Jobs have finished, but " + count(int(left), "message") + " are left")
	}
	return nil
}
