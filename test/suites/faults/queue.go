// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// quietPeriod is for how long there must be no reconcile for the operator to be at rest.
const quietPeriod = 1500 * time.Millisecond

// Queue is a list in Redis and the ScaledJob that names it, none of whose Jobs ever finishes. Each message is due one
// Job. Its methods must not be called concurrently.
type Queue struct {
	*sjtest.ScaledJob

	target *Target
	// expected is how many Jobs there should be, as of the last time that it was asked. It does not fall, because Jobs
	// stay.
	expected int

	mu sync.Mutex
	// depth is at most how long the list is, and peak how long it ever was.
	depth, peak int
}

// newQueue makes a ScaledJob with an empty queue on the target.
func (f *Fixture) newQueue(ctx context.Context, name string, changes ...sjtest.Change) (*Queue, error) {
	q := &Queue{target: f.Target, ScaledJob: &sjtest.ScaledJob{
		API: f.Setting.API, Operator: f.Setting.Operator, Redis: f.client,
		Namespace: f.namespace, Name: name, Queue: f.namespace + ":" + name,
	}}
	if err := q.Create(ctx, changes...); err != nil {
		return nil, err
	}
	return q, q.Observe(ctx, f.Setting.Control.Config(), q.limit)
}

// limit is how many Jobs may be unfinished.
func (q *Queue) limit() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.capped(q.peak)
}

func (q *Queue) capped(messages int) int {
	return min(messages, int(q.Object.Spec.MaxReplicasOrDefault()))
}

// Push adds messages one by one, past the proxy. It stops at the first that the
// server does not take, or not in time: then it may have taken that.
func (q *Queue) Push(ctx context.Context, messages int) error {
	for range messages {
		q.mu.Lock()
		q.depth++
		q.peak = max(q.peak, q.depth)
		q.mu.Unlock()
		if err := q.Redis.LPush(ctx, q.Queue, "message").Err(); err != nil {
			return fmt.Errorf("pushing to %s: %w", q.Queue, err)
		}
	}
	return nil
}

// Expected returns how many Jobs there should be by now, by what the server holds and has held.
func (q *Queue) Expected(ctx context.Context) (int, error) {
	depth, err := q.Depth(ctx)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depth = depth
	q.expected = max(q.expected, q.capped(q.depth))
	return q.expected, nil
}

// AwaitExpected returns nil once all Jobs are there that should be, and otherwise when ctx ends.
func (q *Queue) AwaitExpected(ctx context.Context) error {
	return sjtest.Await(ctx, func(ctx context.Context) error {
		expected, err := q.Expected(ctx)
		if created := q.Jobs.Created(); err == nil && created < expected {
			err = fmt.Errorf("there are %d of %d Jobs of %s", created, expected, q.Name)
		}
		return err
	})
}

// AwaitRest returns once the operator does not reconcile the ScaledJob, and has no reason left to, so that it does only
// when it is asked. It has all Jobs have a ready Pod: the operator looks at a Job that has none after a minute.
func (q *Queue) AwaitRest(ctx context.Context) error {
	return errors.Join(q.start(ctx), q.AwaitQuiet(ctx, quietPeriod))
}

// start has all Jobs have a ready Pod.
func (q *Queue) start(ctx context.Context) error {
	var all batchv1.JobList
	err := q.API.List(ctx, &all, client.InNamespace(q.Namespace), client.MatchingLabels{scaledjobv1.LabelScaledJob: q.Name})
	for _, job := range all.Items {
		if job.Status.Ready == nil {
			err = errors.Join(err, jobwatch.Ready(ctx, q.API, client.ObjectKeyFromObject(&job)))
		}
	}
	return err
}

// Prove has the operator look many more times, and the resync come as well, and
// returns an error if a Job was created that was not due, or none that was.
func (q *Queue) Prove(ctx context.Context) error { return q.Exactly(ctx, q.Expected) }
