// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// churnLimit Jobs are at work all the time, since there are more messages than ever get their turn.
	churnLimit    = int32(200)
	churnMessages = 10_000
	// One Job finishes every churnInterval, for churnTime in each of churnTurns.
	churnInterval = 10 * time.Millisecond
	churnTime     = 10 * time.Second
	churnTurns    = 3

	mostRefill      = 1.5
	mostChurnWrites = 1.2
	// mostBehind is for how long the status may tell something else than what was so at the end of the churn.
	mostBehind = 2 * time.Second // The status is a second late.
)

// churning is a ScaledJob that is at its limit, and whose Jobs come and go.
func churning(spec *scaledjobv1.ScaledJobSpec) {
	limit := churnLimit
	spec.MaxReplicas = &limit
}

// churn is what came of Jobs that finish all the time.
type churn struct {
	floor, ours workforce
	// writes are those of the status in a second, in each turn, and behind how many seconds it took to be right after
	// it.
	writes, behind []float64
}

// measureChurn has workers finish Jobs of one ScaledJob that has many messages left, in turns of the floor and of the
// operator: each Job that has finished is to be replaced by another. The floor replaces them unasked; besides, the
// operator reads the depth, prunes and reports.
func measureChurn(ctx context.Context, log io.Writer, s *setting, _ sizes) (result []comparison, err error) {
	c, floor, err := s.startChurn(ctx)
	if err != nil {
		return nil, err
	}
	for i := range churnTurns {
		_, _ = fmt.Fprintf(log, "finishing Jobs of each, %d a second, turn %d of %d …\n", time.Second/churnInterval, i+1, churnTurns)
		if err := c.turn(ctx, s, i); err != nil {
			return nil, errors.Join(err, endOf(ctx, floor))
		}
	}
	refills, err := c.refills(ctx)
	if err != nil {
		return nil, errors.Join(err, endOf(ctx, floor))
	}
	work := fmt.Sprintf("churn, %d Jobs finish a second: ", time.Second/churnInterval)
	return []comparison{
		{work: work + "finished → replaced, p50", unit: "ms", figures: ofQuantiles(refills.floor, refills.ours, 0.5), atMost: mostRefill, samples: refills},
		{work: work + "finished → replaced, p99", unit: "ms", figures: ofQuantiles(refills.floor, refills.ours, 0.99)},
		within(work+"status writes", "/s", mostChurnWrites, quantile(c.writes, 1)),
		within(work+"status right after its end", "s", mostBehind.Seconds(), quantile(c.behind, 1)),
	}, errors.Join(c.check(ctx), floor.Kill(), c.end(ctx, s))
}

// endOf tells why the process has ended, and nil if it has not. The floor ends at its first error, such as a watch that
// could not keep up.
func endOf(ctx context.Context, process *sandbox.Process) error {
	select {
	case <-process.Exited():
		return process.Wait(ctx)
	default:
		return nil
	}
}

// startChurn returns when as many Jobs are there as may be, of both.
func (s *setting) startChurn(ctx context.Context) (*churn, *sandbox.Process, error) {
	c := &churn{}
	for _, side := range []struct {
		of   *contender
		into *workforce
	}{{s.floor, &c.floor}, {s.ours, &c.ours}} {
		member, err := side.of.beside(ctx, "churn", churning)
		if err != nil {
			return nil, nil, err
		}
		if _, err := member.push(ctx, churnMessages); err != nil {
			return nil, nil, err
		}
		side.into.contender = member
	}
	floor, err := s.runFloor("refill", c.floor.contender)
	if err != nil {
		return nil, nil, err
	}
	for _, side := range []*workforce{&c.floor, &c.ours} {
		if _, err := side.nth(ctx, int(churnLimit)); err != nil {
			return nil, nil, errors.Join(err, floor.Kill())
		}
	}
	return c, floor, scene.Pause(ctx, settleTime)
}

// turn has the workers of one work after the other. In every other turn the other one is the first.
func (c *churn) turn(ctx context.Context, s *setting, number int) error {
	works := []func() error{
		func() error { return c.floor.work(ctx, churnTime) },
		func() error { return c.turnOfOurs(ctx, s) },
	}
	first := number % len(works)
	if err := works[first](); err != nil {
		return err
	}
	return works[1-first]()
}

// turnOfOurs has the workers of the operator work, and sees what it writes meanwhile.
func (c *churn) turnOfOurs(ctx context.Context, s *setting) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writes, err := s.countStatusWrites(ctx, crowd{c.ours.contender})
	if err != nil {
		return err
	}
	if err := c.ours.work(ctx, churnTime); err != nil {
		return err
	}
	ended := time.Now()
	if err := c.ours.awaitStatus(ctx); err != nil {
		return err
	}
	behind := time.Since(ended)
	count, err := writes()
	if err != nil {
		return err
	}
	c.writes = append(c.writes, float64(count)/(churnTime+behind).Seconds())
	c.behind = append(c.behind, behind.Seconds())
	return nil
}

// refills are how many milliseconds it took from the end of each Job until one more was seen.
func (c *churn) refills(ctx context.Context) (taken latencies, err error) {
	if taken.floor, err = c.floor.refills(ctx); err != nil {
		return latencies{}, err
	}
	taken.ours, err = c.ours.refills(ctx)
	return taken, err
}

// check fails if either has another number of Jobs than it had room for.
func (c *churn) check(ctx context.Context) error {
	if err := scene.Pause(ctx, settleTime); err != nil {
		return err
	}
	for _, side := range []workforce{c.floor, c.ours} {
		room := int(churnLimit) + len(side.finished)
		if created := side.arrivals.count(side.sj.Name); created != room {
			return fmt.Errorf("%s is not exact: %d Jobs where there was room for %d", side.name, created, room)
		}
	}
	return nil
}

// end leaves nothing behind.
func (c *churn) end(ctx context.Context, s *setting) error {
	for _, side := range []workforce{c.floor, c.ours} {
		if err := errors.Join(side.remove(ctx), side.empty(ctx)); err != nil {
			return err
		}
	}
	return errors.Join(s.floor.clear(ctx), s.ours.clear(ctx))
}
