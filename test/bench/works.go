// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// measureLatency pushes single messages to queues whose Jobs are all there.
func measureLatency(ctx context.Context, p *pair, _ choices) ([]results.Figure, error) {
	took, _, err := p.latency(ctx, subjects{p.rival}, samples)
	if err != nil {
		return nil, err
	}
	p50, p99 := p.quantiles("push → Job seen", took)
	p50.AtMost, p99.AtMost = 1.25, 1.5
	p50.Samples = results.Sorted(took[p.loop], took[p.rival])
	return []results.Figure{p50, p99}, nil
}

// quantiles compares the median and the 99th percentile of both.
func (p *pair) quantiles(work string, took values) (p50, p99 results.Figure) {
	of := func(part float64) (reference, ours float64) {
		return quantile(took[p.loop], part), quantile(took[p.rival], part)
	}
	reference50, ours50 := of(median)
	reference99, ours99 := of(tail)
	return results.Compare(work+", p50", "ms", reference50, ours50), results.Compare(work+", p99", "ms", reference99, ours99)
}

// measureBursts compares the rates of all rounds together, which all had the same work: their harmonic means. In a
// round in which the API server collects garbage, it is much slower than in another one, so a median would be that of
// rounds with or of rounds without.
func measureBursts(ctx context.Context, p *pair, _ choices) ([]results.Figure, error) {
	const warmUp = 1
	rates, _, err := p.bursts(ctx, rounds, warmUp)
	if err != nil {
		return nil, err
	}
	figure := results.Compare(fmt.Sprintf("burst of %d", burstSize), "Jobs/s", harmonicMean(rates[p.loop]), harmonicMean(rates[p.rival]))
	figure.AtLeast = 0.95
	return []results.Figure{figure}, nil
}

func harmonicMean(values []float64) float64 {
	inverse := 0.0
	for _, each := range values {
		inverse += 1 / each
	}
	return float64(len(values)) / inverse
}

// measureFanOut pushes single messages to many queues. The loop always gets notifications.
func measureFanOut(ctx context.Context, p *pair, _ choices) (all []results.Figure, err error) {
	const rounds = 5
	for _, each := range []struct {
		queues  int
		name    string
		tracked bool
	}{{300, "", false}, {300, ", keys tracked", true}, {1000, "", false}} {
		took, _, err := p.fanOut(ctx, each.queues, rounds, each.tracked)
		if err != nil {
			return nil, err
		}
		work := fmt.Sprintf("fan-out, %d queues get a message each within %s%s", each.queues, fanOutTime, each.name)
		p50, p99 := p.quantiles(work, values{p.loop: slices.Concat(took[p.loop]...), p.rival: slices.Concat(took[p.rival]...)})
		p50.AtMost, p99.AtMost = 3, 1.5
		all = append(all, p50, p99)
	}
	return all, nil
}
