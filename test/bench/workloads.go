// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

const (
	// warmUpSamples and warmUpRounds come before those that count, so that connections are open and code paths warm.
	warmUpSamples = 20
	warmUpRounds  = 1
	// meanGap is the mean time between a sample and the next push, to the other contender. In it the first one reports
	// what it did. The gaps vary, so that samples do not fall into step with anything periodic.
	meanGap = 100 * time.Millisecond

	millisecondsPerSecond = 1000
)

// measureLatency pushes single messages to queues whose Jobs are all there, and takes the time until the new Job is
// seen.
func measureLatency(ctx context.Context, log io.Writer, s *setting, size sizes) ([]comparison, error) {
	_, _ = fmt.Fprintf(log, "pushing %d messages to each, one at a time …\n", size.samples)
	times, err := s.takeTurns(ctx, meanGap, func(taken int) bool { return taken < size.samples })
	if err != nil {
		return nil, err
	}
	return []comparison{
		{work: "push → Job seen, p50", unit: "ms", figures: ofQuantiles(times.floor, times.ours, 0.5), atMost: 1.25, samples: times},
		{work: "push → Job seen, p99", unit: "ms", figures: ofQuantiles(times.floor, times.ours, 0.99), atMost: 1.5},
	}, nil
}

// takeTurns pushes single messages to each as long as more are wanted of those that count, with gaps of this mean.
func (s *setting) takeTurns(ctx context.Context, gap time.Duration, more func(taken int) bool) (times latencies, err error) {
	for i := 0; more(i - warmUpSamples); i++ {
		for _, c := range s.inTurn(i) {
			if err := scene.Pause(ctx, about(gap)); err != nil {
				return latencies{}, err
			}
			took, err := c.serve(ctx, 1)
			if err != nil {
				return latencies{}, err
			}
			milliseconds := inMilliseconds(took)
			switch {
			case i < warmUpSamples:
			case c == s.floor:
				times.floor = append(times.floor, milliseconds)
			default:
				times.ours = append(times.ours, milliseconds)
			}
		}
	}
	return times, s.checkAndClear(ctx)
}

// measureBursts pushes many messages at once to empty queues, and takes the time until the last Job is seen.
func measureBursts(ctx context.Context, log io.Writer, s *setting, size sizes) ([]comparison, error) {
	rates, curves := map[*contender][]float64{}, map[*contender][][]float64{}
	// Their order is random, so that the API server does not collect garbage while the same one is measured each time, and
	// each is the first as often as the other.
	for i, turn := range rand.Perm(warmUpRounds + size.rounds) {
		_, _ = fmt.Fprintf(log, "pushing %d messages to each at once, round %d of %d …\n", size.burst, i+1, warmUpRounds+size.rounds)
		for _, c := range s.inTurn(turn) {
			// The one before has nothing left to do for its Jobs.
			if err := scene.Pause(ctx, settleTime); err != nil {
				return nil, err
			}
			times, err := c.burst(ctx, size.burst)
			if err != nil {
				return nil, err
			}
			if i >= warmUpRounds {
				rates[c] = append(rates[c], float64(size.burst)/slices.Max(times)*millisecondsPerSecond)
				curves[c] = append(curves[c], results.Curve(times))
			}
		}
		if err := s.checkAndClear(ctx); err != nil {
			return nil, err
		}
	}
	work := fmt.Sprintf("burst of %d", size.burst)
	return []comparison{{
		work: work, unit: "Jobs/s", figures: ofRounds(rates[s.floor], rates[s.ours]), atLeast: 0.95,
		curves: &results.Curves{Count: size.burst, Reference: curves[s.floor], Ours: curves[s.ours]},
	}}, nil
}
