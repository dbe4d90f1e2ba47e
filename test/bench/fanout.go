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
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// All queues get one message each within fanOutTime, in each of fanOutRounds.
	fanOutTime   = time.Second
	fanOutRounds = 5

	fanOutName                 = "fanout"
	mostFanOut50, mostFanOut99 = 3.0, 1.5
)

// fanOutCase is a number of queues, and how ours hears of messages. The floor always hears by notifications.
type fanOutCase struct {
	queues int
	name   string
	shape  func(*scaledjobv1.ScaledJobSpec)
	mode   scaledjobv1.ScalingMode
}

func fanOutCases() []fanOutCase {
	return []fanOutCase{
		{300, "", asItIs, scaledjobv1.ModeEvents},
		{300, ", keys tracked", tracked, scaledjobv1.ModeTracking},
		{1000, "", asItIs, scaledjobv1.ModeEvents},
	}
}

// measureFanOut pushes single messages to many queues, each with a ScaledJob of its own, and takes the time until the
// Job of each is seen.
func measureFanOut(ctx context.Context, log io.Writer, s *setting, _ sizes) (all []comparison, err error) {
	for _, c := range fanOutCases() {
		seen, err := s.fanOut(ctx, log, c)
		if err != nil {
			return nil, err
		}
		work := fmt.Sprintf("fan-out, %d queues get a message each within %s%s: ", c.queues, fanOutTime, c.name)
		all = append(all,
			comparison{work: work + "p50", unit: "ms", figures: ofQuantiles(seen.floor, seen.ours, 0.5), atMost: mostFanOut50, samples: seen},
			comparison{work: work + "p99", unit: "ms", figures: ofQuantiles(seen.floor, seen.ours, 0.99), atMost: mostFanOut99})
	}
	return all, nil
}

// fanOut returns how many milliseconds each message has waited for its Job.
func (s *setting) fanOut(ctx context.Context, log io.Writer, of fanOutCase) (seen latencies, err error) {
	_, _ = fmt.Fprintf(log, "creating %d ScaledJobs for each …\n", of.queues)
	crowds := map[*contender]crowd{}
	for _, c := range s.inTurn(0) {
		if crowds[c], err = c.crowd(ctx, fanOutName, s.redis.Addr(), of.queues, of.shape); err != nil {
			return latencies{}, err
		}
	}
	process, err := s.runFloorFor("fanout", s.floor.sj.Namespace, fanOutName)
	if err != nil {
		return latencies{}, err
	}
	times := map[*contender][]float64{}
	begin := func() error {
		return errors.Join(crowds[s.floor].subscribed(ctx), crowds[s.ours].hear(ctx, of.mode), s.checkAndClear(ctx))
	}
	if err := begin(); err != nil {
		return latencies{}, errors.Join(err, process.Kill())
	}
	for round := range fanOutRounds {
		_, _ = fmt.Fprintf(log, "pushing a message to %d queues of each, round %d of %d …\n", of.queues, round+1, fanOutRounds)
		for _, c := range s.inTurn(round) {
			taken, err := crowds[c].serveOneEach(ctx)
			if err != nil {
				return latencies{}, errors.Join(err, endOf(ctx, process), process.Kill())
			}
			times[c] = append(times[c], taken...)
		}
	}
	for _, c := range s.inTurn(0) {
		err = errors.Join(err, crowds[c].check(ctx), crowds[c].remove(ctx), c.clear(ctx))
	}
	return latencies{times[s.floor], times[s.ours]}, errors.Join(err, process.Kill(), s.redis.Client().FlushAll(ctx).Err())
}

// serveOneEach pushes one message to each queue, spread evenly over the time of a round, and returns how many
// milliseconds passed until the Job of each was seen.
func (c crowd) serveOneEach(ctx context.Context) (taken []float64, err error) {
	pushed := make([]time.Time, len(c))
	began := time.Now()
	for i, member := range c {
		if err := scene.Pause(ctx, time.Until(began.Add(fanOutTime*time.Duration(i)/time.Duration(len(c))))); err != nil {
			return nil, err
		}
		if pushed[i], err = member.push(ctx, 1); err != nil {
			return nil, err
		}
	}
	for i, member := range c {
		job, err := member.nth(ctx, member.pushed)
		if err != nil {
			return nil, err
		}
		taken = append(taken, inMilliseconds(job.at.Sub(pushed[i])))
	}
	// The reports of this round are not to meet the next one.
	return taken, errors.Join(c.reported(ctx), scene.Pause(ctx, settleTime))
}

// reported waits until the statuses count all Jobs, if the contender writes any.
func (c crowd) reported(ctx context.Context) error {
	if !c[0].reports {
		return nil
	}
	active := int32(c[0].pushed)
	return c.await(ctx, func(status scaledjobv1.ScaledJobStatus) bool { return status.ActiveJobs == active })
}

// subscribed waits until somebody listens to all queues.
func (c crowd) subscribed(ctx context.Context) error {
	for _, member := range c {
		if err := member.subscribed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hear waits until all hear by this mode. A first change of a key proves the tracking.
func (c crowd) hear(ctx context.Context, mode scaledjobv1.ScalingMode) error {
	key := c[0].sj.Spec.QueueName
	if key == "" {
		key = c[0].sj.Spec.Queues[0].Name
	}
	return c.await(ctx, func(status scaledjobv1.ScaledJobStatus) bool {
		if status.Mode != mode && mode == scaledjobv1.ModeTracking {
			_ = c[0].touch(ctx, key)
		}
		return status.Mode == mode
	})
}
