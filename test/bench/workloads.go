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
	times := map[*contender][]float64{}
	for i := range warmUpSamples + size.samples {
		for _, c := range s.inTurn(i) {
			if err := scene.Pause(ctx, time.Duration((0.5+rand.Float64())*float64(meanGap))); err != nil {
				return nil, err
			}
			took, err := c.serve(ctx, 1)
			if err != nil {
				return nil, err
			}
			if i >= warmUpSamples {
				times[c] = append(times[c], float64(took)/float64(time.Millisecond))
			}
		}
	}
	if err := s.checkAndClear(ctx); err != nil {
		return nil, err
	}
	seen := latencies{times[s.floor], times[s.ours]}
	return []comparison{
		{work: "push → Job seen, p50", unit: "ms", figures: ofQuantiles(seen.floor, seen.ours, 0.5), atMost: 1.25, samples: seen},
		{work: "push → Job seen, p99", unit: "ms", figures: ofQuantiles(seen.floor, seen.ours, 0.99), atMost: 1.5},
	}, nil
}

// measureBursts pushes many messages at once to empty queues, and takes the time until the last Job is seen.
func measureBursts(ctx context.Context, log io.Writer, s *setting, size sizes) ([]comparison, error) {
	rates, curves := map[*contender][]float64{}, map[*contender][][]float64{}
	for i := range warmUpRounds + size.rounds {
		_, _ = fmt.Fprintf(log, "pushing %d messages to each at once, round %d of %d …\n", size.burst, i+1, warmUpRounds+size.rounds)
		for _, c := range s.inTurn(i) {
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
	work := fmt.Sprintf("burst of %d, median", size.burst)
	return []comparison{{
		work: work, unit: "Jobs/s", figures: ofRounds(rates[s.floor], rates[s.ours]), atLeast: 0.9,
		curves: &results.Curves{Count: size.burst, Reference: curves[s.floor], Ours: curves[s.ours]},
	}}, nil
}
