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
func (f *Fixture) Add(ctx context.Context, name string, changes ...sjtest.Change) (*Queue, error) {
	q, err := f.newQueue(ctx, name, slices.Concat(f.always, changes)...)
	if err == nil {
		f.Queues = append(f.Queues, q)
	}
	return q, err
}

// Close deletes the ScaledJobs, so that the operator listens no more, and ends the target.
func (f *Fixture) Close(ctx context.Context) error {
	err := f.each(ctx, func(q *Queue, ctx context.Context) error { return q.Delete(ctx) })
	if f.Target == nil {
		return err
	}
	return errors.Join(err, f.Target.Close())
}

// Play has messages come before, during and after a fault, and reports what came
// of them. An error means that the play could not be played to its end.
func (f *Fixture) Play(ctx context.Context, fault Fault, lasting time.Duration) (jobwatch.Row, error) {
	if err := errors.Join(f.Push(ctx), f.AwaitExpected(ctx), f.AwaitRest(ctx)); err != nil {
		return jobwatch.Row{Fault: fault.Name, Promise: fault.Promise}, fmt.Errorf("before the fault: %w", err)
	}
	return f.strike(ctx, fault, lasting, f.pushMany)
}

// PlayStart is Play for an operator that begins during the fault: it hears of the queues by begin.
func (f *Fixture) PlayStart(ctx context.Context, fault Fault, lasting time.Duration, begin Meanwhile) (jobwatch.Row, error) {
	row, err := f.strike(ctx, fault, lasting, func(ctx context.Context) error {
		return errors.Join(begin(ctx), f.pushMany(ctx))
	})
	row.Fault += ", from the start"
	return row, err
}

func (f *Fixture) strike(ctx context.Context, fault Fault, lasting time.Duration, meanwhile Meanwhile) (jobwatch.Row, error) {
	row := jobwatch.Row{Fault: fault.Name, Promise: fault.Promise}
	strike := fault.Strike
	if fault.strikeFirst != nil {
		strike = func(ctx context.Context, _ *Target, lasting time.Duration, meanwhile Meanwhile) error {
			return fault.strikeFirst(ctx, f.Queues[0], lasting, meanwhile)
		}
	}
	if err := strike(ctx, f.Target, lasting, meanwhile); err != nil {
		return row, fmt.Errorf("during the fault: %w", err)
	}
	return row, f.recover(ctx, &row)
}

// recover waits for the Jobs of all messages that the server has, before another
// message comes which would have the operator look.
func (f *Fixture) recover(ctx context.Context, row *jobwatch.Row) error {
	ended := time.Now()
	late := f.AwaitExpected(ctx)
	row.Recovery = time.Since(ended)
	row.Lost = f.missing()
	if late != nil {
		return fmt.Errorf("after the fault: %w", late)
	}
	if err := errors.Join(f.Push(ctx), f.AwaitExpected(ctx)); err != nil {
		return fmt.Errorf("after the recovery: %w", err)
	}
	return nil
}

// missing is how many Jobs are not there that should be.
func (f *Fixture) missing() (jobs int) {
	for _, q := range f.Queues {
		jobs += max(0, q.expected-q.Jobs.Created())
	}
	return jobs
}

// Prove has the operator look many more times, and returns how many Jobs there are
// too many, and an error if any is, or was at any time.
func (f *Fixture) Prove(ctx context.Context) (over int, err error) {
	err = f.each(ctx, (*Queue).Prove)
	for _, q := range f.Queues {
		over += max(0, q.Jobs.Created()-q.expected)
	}
	return over, errors.Join(err, f.Setting.Alive(ctx))
}

// Push adds a few messages to each queue.
func (f *Fixture) Push(ctx context.Context) error {
	return f.each(ctx, func(q *Queue, ctx context.Context) error { return q.Push(ctx, messages) })
}

// pushMany adds more messages to each queue than it has Jobs, so that more are due
// even if the queue was lost. That the server refuses some is no error.
func (f *Fixture) pushMany(ctx context.Context) error {
	for _, q := range f.Queues {
		if err := q.Push(ctx, q.Jobs.Created()+messages); err != nil {
			break
		}
	}
	return ctx.Err()
}

// AwaitExpected returns once all Jobs are there that should be.
func (f *Fixture) AwaitExpected(ctx context.Context) error {
	return f.await(ctx, (*Queue).AwaitExpected)
}

// AwaitRest returns once the operator is at rest.
func (f *Fixture) AwaitRest(ctx context.Context) error { return f.await(ctx, (*Queue).AwaitRest) }

// AwaitSubscriptions returns once somebody listens to every queue.
func (f *Fixture) AwaitSubscriptions(ctx context.Context) error {
	return f.await(ctx, func(q *Queue, ctx context.Context) error { return q.AwaitSubscription(ctx) })
}

func (f *Fixture) await(ctx context.Context, fact func(*Queue, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	return f.each(ctx, fact)
}

// each does something with all queues at the same time.
func (f *Fixture) each(ctx context.Context, do func(*Queue, context.Context) error) error {
	errs := make([]error, len(f.Queues))
	var doing sync.WaitGroup
	for i, q := range f.Queues {
		doing.Go(func() { errs[i] = do(q, ctx) })
	}
	doing.Wait()
	return errors.Join(errs...)
}
