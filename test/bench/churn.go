// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// churnLimit Jobs are at work all the time, since there are more messages than ever get their turn.
	churnLimit    = int32(200)
	churnMessages = 10_000
	// One Job finishes every churnInterval, for churnTime in each of churnTurns.
	churnInterval = 10 * time.Millisecond
	churnTime     = 10 * time.Second
	churnTurns    = 3
)

// churn is the workers of a ScaledJob. Nothing else finishes its Jobs, because here no controller of Kubernetes touches
// them.
type churn struct {
	*subject

	// finished is when each Job was that they finished.
	finished []time.Time
}

// measureChurn has workers finish Jobs of one ScaledJob that has many messages left, in turns of the loop and of the
// operator: each Job that has finished is to be replaced by another. The loop replaces them unasked; the operator also
// reads the depth, prunes and reports.
func measureChurn(ctx context.Context, p *pair, _ choices) (result []results.Figure, err error) {
	workers, process, err := p.startChurn(ctx)
	if err != nil {
		return nil, err
	}
	took := values{}
	if err := p.workInTurns(ctx, workers, took); err != nil {
		return nil, errors.Join(err, errorOf(ctx, process), process.Kill())
	}
	p50, p99 := p.quantiles(fmt.Sprintf("churn, %d Jobs finish a second: finished → replaced", time.Second/churnInterval), took)
	p50.AtMost = 1.5
	err = process.Kill()
	for of, w := range workers {
		err = errors.Join(err, w.check(), w.remove(ctx), w.empty(ctx), p.clear(ctx, of, nil))
	}
	return []results.Figure{p50, p99}, err
}

// startChurn returns when both have as many Jobs as they may have.
func (p *pair) startChurn(ctx context.Context) (map[*subject]*churn, *sandbox.Process, error) {
	const name = "churn"
	workers := map[*subject]*churn{}
	for _, of := range p.inTurn(0) {
		w := &churn{subject: of.sibling(name)}
		limit := churnLimit
		w.sj.Spec.MaxReplicas = &limit
		if err := w.create(ctx); err != nil {
			return nil, nil, err
		}
		if _, err := w.push(ctx, churnMessages); err != nil {
			return nil, nil, err
		}
		workers[of] = w
	}
	process, err := p.runLoop("drain", name)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range workers {
		if _, err := w.nth(ctx, int(churnLimit)); err != nil {
			return nil, nil, errors.Join(err, process.Kill())
		}
	}
	return workers, process, sjtest.Pause(ctx, settleTime)
}

// workInTurns adds how many milliseconds it took from the end of each Job until there was one more.
func (p *pair) workInTurns(ctx context.Context, workers map[*subject]*churn, took values) error {
	for turn := range churnTurns {
		p.shown.Status("finishing %d Jobs a second, turn %d of %d", time.Second/churnInterval, turn+1, churnTurns)
		for _, of := range p.inTurn(turn) {
			if err := workers[of].work(ctx); err != nil {
				return err
			}
		}
	}
	for of, w := range workers {
		for i, at := range slices.SortedFunc(slices.Values(w.finished), time.Time.Compare) {
			replacement, err := w.nth(ctx, int(churnLimit)+i+1)
			if err != nil {
				return err
			}
			took[of] = append(took[of], inMilliseconds(replacement.at.Sub(at)))
		}
	}
	return sjtest.Pause(ctx, settleTime)
}

// work finishes the oldest Job every churnInterval, and returns when the last is finished.
func (c *churn) work(ctx context.Context) error {
	begun, done := time.Now(), len(c.finished)
	c.finished = append(c.finished, make([]time.Time, churnTime/churnInterval)...)
	group, ctx := errgroup.WithContext(ctx)
	for i := done; i < len(c.finished); i++ {
		if err := sjtest.Pause(ctx, time.Until(begun.Add(time.Duration(i-done)*churnInterval))); err != nil {
			break // One has failed, or there is no time left.
		}
		group.Go(func() (err error) {
			c.finished[i], err = c.finish(ctx, i+1)
			return err
		})
	}
	return group.Wait()
}

// finish takes a message and finishes the n-th Job, and returns when that was so.
func (c *churn) finish(ctx context.Context, n int) (time.Time, error) {
	found, err := c.nth(ctx, n)
	if err != nil {
		return time.Time{}, err
	}
	if err := c.queue.RPop(ctx, c.sj.Spec.QueueName).Err(); err != nil {
		return time.Time{}, fmt.Errorf("taking a message: %w", err)
	}
	if err := jobwatch.Complete(ctx, c.kube, client.ObjectKey{Namespace: c.sj.Namespace, Name: found.job}); err != nil {
		return time.Time{}, err
	}
	return time.Now(), nil
}

// check fails if there is another number of Jobs than there was room for.
func (c *churn) check() error {
	room := int(churnLimit) + len(c.finished)
	if created := c.arrivals.count(c.sj.Name); created != room {
		return fmt.Errorf("%s is not exact: %d Jobs where there was room for %d", c.name, created, room)
	}
	return nil
}
