// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds what the operator, or the workers, take to get something done.
	timeout = 2 * time.Minute
	// probes is how many messages show that every queue is still listened to.
	probes = 3
	// drainGap is the mean gap between Jobs that finish when no messages come.
	drainGap     = 10 * time.Millisecond
	pollInterval = 100 * time.Millisecond
	settledAfter = 2 * time.Second
)

// settle sees that no wake-up was lost: every message that waits has its Job, as far as the limits allow, though no
// other message comes that would have the operator look. Then it has the workers empty the queues, and a few more
// messages come, for which there must be as many Jobs. It leaves nothing behind.
func (s *soak) settle(ctx context.Context) error {
	for _, step := range []func(*queue, context.Context) error{(*queue).awaitDue, (*queue).drain, (*queue).probe, (*queue).drain} {
		steps, ctx := errgroup.WithContext(ctx)
		for _, q := range s.queues {
			steps.Go(func() error { return step(q, ctx) })
		}
		if err := steps.Wait(); err != nil {
			return err
		}
	}
	if err := sjtest.Pause(ctx, settledAfter); err != nil { // for a Job that nobody asked for
		return err
	}
	return s.check()
}

// awaitDue waits until there is a Job for every message that waits, or as many as may be.
func (q *queue) awaitDue(ctx context.Context) error {
	var due, present int
	err := q.await(ctx, func(depth int) bool {
		due, present = min(depth, q.limit()), len(q.observed.Unfinished())
		return present >= due
	})
	if err != nil {
		return fmt.Errorf("ScaledJob %s: a wake-up was lost: %d Jobs are due, and there are %d: %w", q.Name, due, present, err)
	}
	return nil
}

// drain has a worker take all messages and finish all Jobs.
func (q *queue) drain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var working errgroup.Group
	working.Go(func() error { return q.work(ctx, drainGap) })
	err := q.await(ctx, func(depth int) bool { return depth == 0 && len(q.observed.Unfinished()) == 0 })
	cancel()
	if failed := working.Wait(); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("emptying the queue of %s: %w", q.Name, err)
	}
	return nil
}

// probe pushes a few messages to an empty queue, and waits for exactly their Jobs.
func (q *queue) probe(ctx context.Context) error {
	before := q.observed.Created()
	q.push(ctx, probes)
	if err := q.awaitDue(ctx); err != nil {
		return err
	}
	if err := sjtest.Pause(ctx, settledAfter); err != nil {
		return err
	}
	if err := q.observed.Sync(ctx); err != nil {
		return err
	}
	if created := q.observed.Created() - before; created != probes {
		return fmt.Errorf("ScaledJob %s has got %d Jobs for %d messages", q.Name, created, probes)
	}
	return nil
}

// await waits until the condition, which is told how many messages wait, holds.
func (q *queue) await(ctx context.Context, holds func(depth int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		depth, err := q.Depth(ctx)
		if err == nil && holds(depth) {
			return nil
		}
		if err := sjtest.Pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}
