// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// observation is all that a pass goes by.
type observation struct {
	// jobs are the Jobs that the ScaledJob controls.
	jobs jobs.Census
	// unanswered are creates of which it is not known whether they made a Job.
	unanswered []consistency.Unanswered
	// depth is how many messages are outstanding. It means nothing if queueErr, which says why it could not be read, is not nil.
	depth    int64
	queueErr *redisconn.Error
	// events is what is known about the notifications of the queue, and missed says that growth of it turned out to be unannounced.
	events keyspace.State
	missed bool
}

// observe counts the Jobs and then reads the depth. The depth comes last, since messages may be taken in the meantime, and a depth
// from before would ask for Jobs that nobody needs. A depth that can't be read is part of what was seen; the error is for Jobs that
// can't be listed, and then nothing can be decided at all.
func (r *Reconciler) observe(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory) (observation, error) {
	owned, err := r.Jobs.Owned(sj.Namespace, sj.UID)
	if err != nil {
		return observation{}, err
	}
	seen := observation{jobs: jobs.Take(owned, sj.UID)}
	seen.unanswered = r.Gate.Saw(sj.UID, &seen.jobs)
	if heard := r.Watcher.TakeNotified(client.ObjectKeyFromObject(sj)); mem.notified.IsZero() {
		mem.notified = heard
	}
	r.observeQueue(ctx, sj, &seen)
	return seen, nil
}

// observeQueue reads the depth, and has it compared with the notifications.
func (r *Reconciler) observeQueue(ctx context.Context, sj *scaledjobv1.ScaledJob, seen *observation) {
	key := client.ObjectKeyFromObject(sj)
	began := time.Now()
	seen.depth, seen.queueErr = r.readDepth(ctx, sj)
	if seen.queueErr == nil {
		r.Metrics.Read(time.Since(began))
		seen.missed = r.Watcher.Observed(key, sj.Spec.QueueName, seen.depth, began)
	}
	seen.events = r.Watcher.State(key)
}

func (r *Reconciler) readDepth(ctx context.Context, sj *scaledjobv1.ScaledJob) (int64, *redisconn.Error) {
	endpoint, err := redisconn.ParseEndpoint(sj.Spec.RedisAddress)
	if err != nil {
		return 0, &redisconn.Error{
			Reason:  redisconn.ReasonUnreachable,
			Message: "redisAddress is not of the form host:port. Correct it.",
			Err:     err,
		}
	}
	depth, err := r.Queues.Observe(ctx, queue.Source{Endpoint: endpoint, Key: sj.Spec.QueueName})
	return depth, redisconn.Classify(err)
}
