// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// observer tells of the Jobs of one ScaledJob.
type observer interface {
	// Created is how many there ever were, and Unfinished the names of those left.
	Created() int
	Unfinished() []string
	// Verdict is what must not have happened and did, or empty.
	Verdict() string
	// CatchUp returns nil once all has been seen that happened before the call.
	CatchUp(ctx context.Context) error
}

// queue is a list, the ScaledJob that names it, and the witness of its Jobs. Each
// message is due one Job, up to the limit.
type queue struct {
	// server is the one that has the list, nil for a list that nobody has.
	server  *server
	api     *api
	object  *scaledjobv1.ScaledJob
	witness observer
	// pushed is how many messages there ever were, at most.
	pushed atomic.Int64
}

// newQueue makes a ScaledJob with an empty queue on the server at this address. Its
// witness stays until ctx ends.
func (s *soak) newQueue(ctx context.Context, name, address string, limit int32) (*queue, error) {
	kept := int32(3)
	q := &queue{api: s.api, object: &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: scaledjobv1.ScaledJobSpec{
			QueueName:                  name,
			RedisAddress:               address,
			Threshold:                  1,
			MaxReplicas:                &limit,
			PollingIntervalSeconds:     3600,
			SuccessfulJobsHistoryLimit: &kept,
			JobTemplate:                witness.IdleJob(),
		},
	}}
	s.api.away.RLock()
	defer s.api.away.RUnlock()
	if err := q.api.Create(ctx, q.object); err != nil {
		return nil, fmt.Errorf("creating ScaledJob %s: %w", name, err)
	}
	var err error
	q.witness, err = witness.Summon(ctx, s.setting.Control.Config(), q.object, q.due)
	return q, err
}

// due is how many Jobs may be unfinished, after what was pushed until now.
func (q *queue) due() int { return int(min(int64(q.limit()), q.pushed.Load())) }

func (q *queue) limit() int { return int(*q.object.Spec.MaxReplicas) }

// check returns an error if there was a Job too many: more at once than are due,
// or more over all time than there were messages.
func (q *queue) check() error {
	created := q.witness.Created()
	if fault := q.witness.Verdict(); fault != "" {
		return fmt.Errorf("ScaledJob %s: %s", q.object.Name, fault)
	}
	if pushed := int(q.pushed.Load()); created > pushed {
		return fmt.Errorf("ScaledJob %s has got %d Jobs for %d messages", q.object.Name, created, pushed)
	}
	return nil
}

// push adds messages. That the server does not take them is no error, and neither
// is it known then whether it did.
func (q *queue) push(ctx context.Context, messages int) {
	q.pushed.Add(int64(messages))
	_, _ = q.server.client.Pipelined(ctx, func(pipe goredis.Pipeliner) error {
		for range messages {
			pipe.LPush(ctx, q.object.Spec.QueueName, "message")
		}
		return nil
	})
}

// storm pushes up to so many messages at once, again and again, until ctx ends.
// The queue never gets longer than a few times its limit.
func (q *queue) storm(ctx context.Context, random *rand.Rand, most int, meanGap time.Duration) {
	for scene.Pause(ctx, between(random, 0, 2*meanGap)) == nil {
		q.pushWell(ctx, 1+random.IntN(most))
	}
}

// pushWell pushes unless a fault strikes: then others do.
func (q *queue) pushWell(ctx context.Context, messages int) {
	q.server.faulty.RLock()
	defer q.server.faulty.RUnlock()
	q.push(ctx, messages)
	q.server.client.LTrim(ctx, q.object.Spec.QueueName, 0, int64(4*q.limit()))
}

// work takes messages and finishes Jobs, one after the other, until ctx ends.
func (q *queue) work(ctx context.Context, meanGap time.Duration) error {
	done := map[string]bool{}
	for scene.Pause(ctx, rand.N(2*meanGap)) == nil {
		// The witness may be yet to see what was done last.
		left := q.witness.Unfinished()
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
	err = q.server.client.RPop(ctx, q.object.Spec.QueueName).Err()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return false, nil // The next try may succeed.
	}
	// The context lets what has begun come to its end.
	err = witness.Complete(context.WithoutCancel(ctx), q.api, client.ObjectKey{Namespace: q.object.Namespace, Name: name})
	return err == nil, err
}
