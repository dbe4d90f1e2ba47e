// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package workers plays the containers of the Jobs of a ScaledJob. Each starts up,
// takes one message in the way of its Kind, works on it, finishes it, and then its
// Job completes. What became of the messages and of the Jobs is written down.
package workers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// Span is from the least to the most that something may take.
type Span struct{ Least, Most time.Duration }

// random is any duration of the span.
func (s Span) random() time.Duration { return s.Least + rand.N(s.Most-s.Least+1) }

// Pace is how long a worker takes: from the creation of its Job until its Pod is ready,
// from then until it takes a message, and from then until it is done with it.
type Pace struct{ StartUp, Claim, Work Span }

// Staff are the workers of one ScaledJob.
type Staff struct {
	Kind Kind
	Pace Pace
	// API is where the Jobs are, Namespace theirs, and Jobs sees each of them.
	API       client.Client
	Namespace string
	Jobs      *jobwatch.Watch

	Ledger
}

// Push adds so many messages to the queue.
func (s *Staff) Push(ctx context.Context, messages int) error {
	for range messages {
		if err := s.Kind.Push(ctx, s.pushing()); err != nil {
			return err
		}
	}
	return nil
}

// Work has a worker for each Job that is created, until ctx ends. It returns the first error that came before that.
func (s *Staff) Work(ctx context.Context) error {
	shift, working := errgroup.WithContext(ctx)
	for n := 1; ; n++ {
		job, err := s.Jobs.Job(working, n)
		if err != nil {
			break // One has failed, or the shift is over.
		}
		shift.Go(func() error { return s.contain(working, job) })
	}
	if err := shift.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// contain does what the container of a Job does.
func (s *Staff) contain(ctx context.Context, job string) error {
	key := client.ObjectKey{Namespace: s.Namespace, Name: job}
	if err := sjtest.Pause(ctx, s.Pace.StartUp.random()); err != nil {
		return err
	}
	ready := time.Now()
	if err := jobwatch.Ready(ctx, s.API, key); err != nil {
		return err
	}
	if err := sjtest.Pause(ctx, s.Pace.Claim.random()); err != nil {
		return err
	}
	message, found, err := s.Kind.Take(ctx, job)
	if err != nil {
		return err
	}
	s.claimed(message.Body, found, ready)
	if found {
		if err := s.serve(ctx, message); err != nil {
			return err
		}
	}
	return jobwatch.Complete(ctx, s.API, key)
}

// serve works on a message.
func (s *Staff) serve(ctx context.Context, message Message) error {
	if err := sjtest.Pause(ctx, s.Pace.Work.random()); err != nil {
		return err
	}
	if err := message.Finish(ctx); err != nil {
		return fmt.Errorf("finishing a message: %w", err)
	}
	s.served(message.Body)
	return nil
}
