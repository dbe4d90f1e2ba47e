// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// fairBurst messages come at once, and during them one message to each of fairOthers ScaledJobs. There are
	// fairRounds of that.
	fairBurst, fairOthers, fairRounds = 5000, 50, 4
	// fairGap is the mean time between single messages. A round of them takes no longer than the burst.
	fairGap = 40 * time.Millisecond
	// mostAdded is how many milliseconds more than the floor takes a Job may take beside a burst.
	mostAdded = 50
)

// measureFairness has a burst come to one ScaledJob of the operator, and meanwhile single messages to its others and,
// in turns with those, to the floor. The operator makes the Jobs of the burst, so that the API server and the machine
// are as busy for both. The floor has nothing else to do: what the operator takes longer is what its own queueing adds.
func measureFairness(ctx context.Context, log io.Writer, s *setting, _ sizes) ([]comparison, error) {
	others, err := s.newCrowd(ctx, "single", s.redis.Addr(), fairOthers, func(*scaledjobv1.ScaledJobSpec) {})
	if err != nil {
		return nil, err
	}
	if err := others.await(ctx, checked); err != nil {
		return nil, fmt.Errorf("waiting for the checks of templates: %w", err)
	}
	var all latencies
	for i := range fairRounds {
		_, _ = fmt.Fprintf(log, "pushing %d messages at once, and single ones meanwhile, round %d of %d …\n", fairBurst, i+1, fairRounds)
		round, err := s.pushBesideBurst(ctx, others)
		if err != nil {
			return nil, err
		}
		all.floor, all.ours = append(all.floor, round.floor...), append(all.ours, round.ours...)
		if err := errors.Join(others.checkAndEmpty(ctx), s.checkAndClear(ctx), others.await(ctx, withoutJobs)); err != nil {
			return nil, err
		}
	}
	return all.compare(), others.remove(ctx)
}

// withoutJobs holds when the operator has reported that the Jobs of a round are deleted. Until then it asks whether the
// ScaledJob still exists before it creates a Job, which is no part of what is measured.
func withoutJobs(status scaledjobv1.ScaledJobStatus) bool { return status.ActiveJobs == 0 }

// latencies are how many milliseconds the Jobs of single messages took.
type latencies struct{ floor, ours []float64 }

func (l latencies) compare() []comparison {
	work := fmt.Sprintf("push → Job seen beside a burst of %d", fairBurst)
	var result []comparison
	for _, q := range []struct {
		name string
		part float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"longest", 1}} {
		f := ofQuantiles(l.floor, l.ours, q.part)
		result = append(result, comparison{work: work + ", " + q.name, unit: "ms", figures: f, most: f.reference + mostAdded})
	}
	result[0].samples = l
	return result
}

// single is one message, the n-th of a contender.
type single struct {
	to     *contender
	n      int
	pushed time.Time
}

// pushBesideBurst returns the latencies of the single messages that came while Jobs of the burst were made.
func (s *setting) pushBesideBurst(ctx context.Context, others crowd) (latencies, error) {
	var took time.Duration
	var singles []single
	begun := time.Now()
	both, pushing := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		took, err = s.ours.serve(pushing, fairBurst)
		return err
	})
	both.Go(func() (err error) {
		singles, err = s.pushSingles(pushing, others)
		return err
	})
	if err := both.Wait(); err != nil {
		return latencies{}, err
	}
	return s.takeLatencies(ctx, singles, begun.Add(took))
}

// pushSingles pushes to the floor and to one of the others in turns. It does not wait for the Jobs.
func (s *setting) pushSingles(ctx context.Context, others crowd) (singles []single, err error) {
	for _, other := range others {
		for _, to := range []*contender{s.floor, other} {
			if err := scene.Pause(ctx, about(fairGap)); err != nil {
				return nil, err
			}
			pushed, err := to.push(ctx, 1)
			if err != nil {
				return nil, err
			}
			singles = append(singles, single{to, to.pushed, pushed})
		}
	}
	return singles, nil
}

// takeLatencies leaves out the messages that came when the burst was over.
func (s *setting) takeLatencies(ctx context.Context, singles []single, over time.Time) (taken latencies, err error) {
	for _, message := range singles {
		job, err := message.to.nth(ctx, message.n)
		if err != nil {
			return latencies{}, err
		}
		took := inMilliseconds(job.at.Sub(message.pushed))
		switch {
		case message.pushed.After(over):
		case message.to == s.floor:
			taken.floor = append(taken.floor, took)
		default:
			taken.ours = append(taken.ours, took)
		}
	}
	if len(taken.floor) == 0 || len(taken.ours) == 0 {
		return latencies{}, errors.New("the burst was over before a single message came")
	}
	return taken, nil
}

// checkAndEmpty fails unless all are exact, and leaves them without messages. Their Jobs stay.
func (c crowd) checkAndEmpty(ctx context.Context) error {
	for _, member := range c {
		if err := errors.Join(member.check(ctx), member.empty(ctx)); err != nil {
			return err
		}
	}
	return c.await(ctx, func(status scaledjobv1.ScaledJobStatus) bool {
		return status.QueueDepth != nil && *status.QueueDepth == 0
	})
}
