// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout is usual for a fixture. It only matters when the operator fails. It is less than the minute after which the
	// operator looks at a Job without a ready Pod, and would find what it has missed.
	timeout = 45 * time.Second
	// messages is how many are pushed at each stage, besides as many as there are
	// Jobs where the server may have lost what it had.
	messages = 2
)

// Fixture is a target of faults to itself, and ScaledJobs whose queues are there.
type Fixture struct {
	Setting *Setting
	// Target is nil if the queues are in a deployment of several servers.
	Target *Target
	Queues []*Queue
	// Timeout bounds each wait for Jobs.
	Timeout time.Duration

	// client goes to the queues, past whatever is between them and the operator.
	client    redis.UniversalClient
	namespace string
	always    []sjtest.Change
}

// NewFixture makes a fixture without any ScaledJob. Each that is added has these changes. The context bounds its
// making.
func NewFixture(ctx context.Context, setting *Setting, always ...sjtest.Change) (*Fixture, error) {
	target, err := NewTarget(ctx)
	if err != nil {
		return nil, err
	}
	fixture, err := NewFixtureOf(ctx, setting, target.Server.Client(), append([]sjtest.Change{sjtest.At(target.Addr())}, always...)...)
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	fixture.Target = target
	return fixture, nil
}

// NewFixtureOf is NewFixture for a deployment of several servers, to which the client goes, and which the changes name.
func NewFixtureOf(ctx context.Context, setting *Setting, client redis.UniversalClient, always ...sjtest.Change) (*Fixture, error) {
	namespace, err := setting.Control.CreateNamespace(ctx, "faults")
	if err != nil {
		return nil, err
	}
	return &Fixture{Setting: setting, Timeout: timeout, client: client, namespace: namespace, always: always}, nil
}

// Add makes a ScaledJob, one Job to a message unless changes say otherwise. The watch of its Jobs stays until ctx ends.
func (s *Fixture) Add(ctx context.Context, name string, changes ...sjtest.Change) (*Queue, error) {
	q, err := s.newQueue(ctx, name, slices.Concat(s.always, changes)...)
	if err == nil {
		s.Queues = append(s.Queues, q)
	}
	return q, err
}

// Close deletes the ScaledJobs, so that the operator listens no more, and ends the target.
func (s *Fixture) Close(ctx context.Context) error {
	err := s.each(ctx, func(q *Queue, ctx context.Context) error { return q.Delete(ctx) })
	if s.Target == nil {
		return err
	}
	return errors.Join(err, s.Target.Close())
}

// Play has messages come before, during and after a fault, and reports what came
// of them. An error means that the play could not be played to its end.
func (s *Fixture) Play(ctx context.Context, fault Fault, lasting time.Duration) (jobwatch.Row, error) {
	if err := errors.Join(s.Push(ctx), s.AwaitExpected(ctx), s.AwaitRest(ctx)); err != nil {
		return jobwatch.Row{Fault: fault.Name, Promise: fault.Promise}, fmt.Errorf("before the fault: %w", err)
	}
	return s.strike(ctx, fault, lasting, s.pushMany)
}

// PlayStart is Play for an operator that begins during the fault: it hears of the queues by begin.
func (s *Fixture) PlayStart(ctx context.Context, fault Fault, lasting time.Duration, begin Meanwhile) (jobwatch.Row, error) {
	row, err := s.strike(ctx, fault, lasting, func(ctx context.Context) error {
		return errors.Join(begin(ctx), s.pushMany(ctx))
	})
	row.Fault += ", from the start"
	return row, err
}

func (s *Fixture) strike(ctx context.Context, fault Fault, lasting time.Duration, meanwhile Meanwhile) (jobwatch.Row, error) {
	row := jobwatch.Row{Fault: fault.Name, Promise: fault.Promise}
	strike := fault.Strike
	if fault.strikeFirst != nil {
		strike = func(ctx context.Context, _ *Target, lasting time.Duration, meanwhile Meanwhile) error {
			return fault.strikeFirst(ctx, s.Queues[0], lasting, meanwhile)
		}
	}
	if err := strike(ctx, s.Target, lasting, meanwhile); err != nil {
		return row, fmt.Errorf("during the fault: %w", err)
	}
	return row, s.recover(ctx, &row)
}

// recover waits for the Jobs of all messages that the server has, before another
// message comes which would have the operator look.
func (s *Fixture) recover(ctx context.Context, row *jobwatch.Row) error {
	ended := time.Now()
	late := s.AwaitExpected(ctx)
	row.Recovery = time.Since(ended)
	row.Lost = s.missing()
	if late != nil {
		return fmt.Errorf("after the fault: %w", late)
	}
	if err := errors.Join(s.Push(ctx), s.AwaitExpected(ctx)); err != nil {
		return fmt.Errorf("after the recovery: %w", err)
	}
	return nil
}

// missing is how many Jobs are not there that should be.
func (s *Fixture) missing() (jobs int) {
	for _, q := range s.Queues {
		jobs += max(0, q.expected-q.Jobs.Created())
	}
	return jobs
}

// Prove has the operator look many more times, and returns how many Jobs there are
// too many, and an error if any is, or was at any time.
func (s *Fixture) Prove(ctx context.Context) (over int, err error) {
	err = s.each(ctx, (*Queue).Prove)
	for _, q := range s.Queues {
		over += max(0, q.Jobs.Created()-q.expected)
	}
	return over, errors.Join(err, s.Setting.Alive(ctx))
}

// Push adds a few messages to each queue.
func (s *Fixture) Push(ctx context.Context) error {
	return s.each(ctx, func(q *Queue, ctx context.Context) error { return q.Push(ctx, messages) })
}

// pushMany adds more messages to each queue than it has Jobs, so that more are due
// even if the queue was lost. That the server refuses some is no error.
func (s *Fixture) pushMany(ctx context.Context) error {
	for _, q := range s.Queues {
		if err := q.Push(ctx, q.Jobs.Created()+messages); err != nil {
			break
		}
	}
	return ctx.Err()
}

// AwaitExpected returns once all Jobs are there that should be.
func (s *Fixture) AwaitExpected(ctx context.Context) error {
	return s.await(ctx, (*Queue).AwaitExpected)
}

// AwaitRest returns once the operator is at rest.
func (s *Fixture) AwaitRest(ctx context.Context) error { return s.await(ctx, (*Queue).AwaitRest) }

// AwaitSubscriptions returns once somebody listens to every queue.
func (s *Fixture) AwaitSubscriptions(ctx context.Context) error {
	return s.await(ctx, func(q *Queue, ctx context.Context) error { return q.AwaitSubscription(ctx) })
}

func (s *Fixture) await(ctx context.Context, fact func(*Queue, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return s.each(ctx, fact)
}

// each does something with all queues at the same time.
func (s *Fixture) each(ctx context.Context, do func(*Queue, context.Context) error) error {
	errs := make([]error, len(s.Queues))
	var doing sync.WaitGroup
	for i, q := range s.Queues {
		doing.Go(func() { errs[i] = do(q, ctx) })
	}
	doing.Wait()
	return errors.Join(errs...)
}
