// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// observer reports the Jobs of one ScaledJob.
type observer interface {
	// Created is how many there ever were, and Unfinished the names of those left.
	Created() int
	Unfinished() []string
	// Violation is what must not have happened and did, or empty.
	Violation() string
	// Sync returns nil once all has been seen that happened before the call.
	Sync(ctx context.Context) error
}

// queue is a list, the ScaledJob that names it, and the watch of its Jobs. Each message is due one Job, up to the
// limit.
type queue struct {
	*sjtest.ScaledJob

	// server is the one that has the list, nil for a list that nobody has.
	server   *server
	api      *api
	observed observer
	// runs says that the Jobs have Pods, which run.
	runs bool
}

// newQueue makes a ScaledJob with an empty queue on the server at this address. The watch of its Jobs stays until ctx
// ends.
func (s *soak) newQueue(ctx context.Context, name, address string, limit int32) (*queue, error) {
	q := &queue{api: s.api, runs: s.alerts != nil, ScaledJob: &sjtest.ScaledJob{
		API: s.api, Address: address, Namespace: s.namespace, Name: name, Queue: name,
	}}
	s.api.away.RLock()
	defer s.api.away.RUnlock()
	err := q.Create(ctx, sjtest.AtMost(limit), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.SuccessfulJobsHistoryLimit = new(int32(3))
		if q.runs {
			spec.PollingIntervalSeconds, spec.JobTemplate.Spec.ManagedBy = 0, nil
		}
	})
	if err != nil {
		return nil, err
	}
	err = q.Observe(ctx, s.setting.Control.Config(), q.Due)
	q.observed = q.Jobs
	return q, err
}

// newQueueOn is newQueue for a server that others push to.
func (s *soak) newQueueOn(ctx context.Context, on *server, name string, limit int32) (*queue, error) {
	q, err := s.newQueue(ctx, name, on.target.Addr(), limit)
	if err != nil {
		return nil, err
	}
	q.server, q.Redis = on, on.client
	return q, nil
}

func (q *queue) limit() int { return int(q.Object.Spec.MaxReplicasOrDefault()) }

// check returns an error if there was a Job too many: more at once than are due,
// or more over all time than there were messages.
func (q *queue) check() error {
	created := q.observed.Created()
	if violation := q.observed.Violation(); violation != "" {
		return fmt.Errorf("ScaledJob %s: %s", q.Name, violation)
	}
	if pushed := q.Pushed(); created > pushed {
		return fmt.Errorf("ScaledJob %s has got %d Jobs for %d messages", q.Name, created, pushed)
	}
	return nil
}

// push adds messages. That the server does not take them is no error, and neither is it known then whether it did.
func (q *queue) push(ctx context.Context, messages int) {
	_ = q.Push(ctx, messages)
}

// storm pushes up to so many messages at once, again and again, until ctx ends.
// The queue never gets longer than a few times its limit.
func (q *queue) storm(ctx context.Context, random *rand.Rand, most int, meanGap time.Duration) {
	for sjtest.Pause(ctx, between(random, 0, 2*meanGap)) == nil {
		q.pushWell(ctx, 1+random.IntN(most))
	}
}

// pushWell pushes unless a fault strikes: then others do.
func (q *queue) pushWell(ctx context.Context, messages int) {
	q.server.faulty.RLock()
	defer q.server.faulty.RUnlock()
	q.push(ctx, messages)
	q.server.client.LTrim(ctx, q.Queue, 0, int64(4*q.limit()))
}

// work takes messages and finishes Jobs, one after the other, until ctx ends.
func (q *queue) work(ctx context.Context, meanGap time.Duration) error {
	done := map[string]bool{}
	for sjtest.Pause(ctx, rand.N(2*meanGap)) == nil {
		// The watch may not have shown yet what was done last.
		left := q.observed.Unfinished()
		for name := range done {
			if !slices.Contains(left, name) {
				delete(done, name)
			}
		}
		left = slices.DeleteFunc(left, func(name string) bool { return done[name] })
		if len(left) == 0 {
			continue
		}
		name := left[rand.IntN(len(left))]
		taken, err := q.finish(ctx, name)
		if err != nil && ctx.Err() == nil {
			return err
		}
		done[name] = taken
	}
	return nil
}

// finish takes a message and then finishes a Job, also where its message was lost.
// It does neither while the server can't be asked. Workers rest during a fault:
// else a server that loads what it had saved would bring back what they took.
func (q *queue) finish(ctx context.Context, name string) (done bool, err error) {
	q.server.faulty.RLock()
	defer q.server.faulty.RUnlock()
	q.api.away.RLock()
	defer q.api.away.RUnlock()
	end, err := q.ending(ctx, name)
	if end == nil {
		return false, err
	}
	err = q.server.client.RPop(ctx, q.Queue).Err()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return false, nil // The next try may succeed.
	}
	// The context lets what has begun come to its end.
	err = end(context.WithoutCancel(ctx))
	return err == nil, err
}

// ending returns what has a Job succeed, and nil while it has no Pod that could.
func (q *queue) ending(ctx context.Context, name string) (func(context.Context) error, error) {
	if !q.runs {
		return func(ctx context.Context) error {
			return jobwatch.Complete(ctx, q.api, client.ObjectKey{Namespace: q.Namespace, Name: name})
		}, nil
	}
	var pods corev1.PodList
	err := q.api.List(ctx, &pods, client.InNamespace(q.Namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
	if err != nil || len(pods.Items) == 0 {
		return nil, err
	}
	return func(ctx context.Context) error {
		return cluster.Now(ctx, q.api, &pods.Items[0], cluster.PodSucceedAfter)
	}, nil
}
