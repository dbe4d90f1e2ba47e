// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

const (
	mostReady, mostWritesEach = 1.15, 1.05
	// The others are aimed at with manyScaledJobs. Memory is in megabytes.
	manyScaledJobs              = 10_000
	mostResident, mostRestCores = 180.0, 0.08
	mostRestart, mostBesideOne  = 3.0, 1.5
	bytesPerMB                  = 1e6
)

// compare tells what the ScaledJobs cost. The latency is compared with the floor, and with that of the first number of
// ScaledJobs in this run.
func (c *scaleCosts) compare(first *scaleCosts) []comparison {
	work := func(what string) string { return fmt.Sprintf("%d ScaledJobs: %s", c.count, what) }
	alone := func(what, unit string, ours float64) comparison {
		shown := figureOnly(work(what), ours)
		shown.unit = unit
		return shown
	}
	aimed := func(what, unit string, limit, ours float64) comparison {
		if c.count < manyScaledJobs {
			return alone(what, unit, ours)
		}
		return within(work(what), unit, limit, ours)
	}
	above := c.ready - c.creating
	result := []comparison{
		alone("created by a bare loop", "s", c.creating),
		{
			work: work("created → all Ready, above that"), unit: "s",
			figures: figures{c.writing, above, above / c.writing}, atMost: mostReady, beside: "bare status writes",
		},
		within(work("status writes each until all are Ready"), "", mostWritesEach, c.untilReady),
		alone("status writes each until all hear by notifications", "", c.untilRest),
		aimed("memory of the process", "MB", mostResident, c.resident/bytesPerMB),
		alone("memory of objects in use", "MB", c.live/bytesPerMB),
		aimed("CPU at rest", "cores", mostRestCores, c.cores),
		alone("CPU time of one resync of all", "s", c.cores*resyncInterval.Seconds()),
		alone("commands at rest", "/s", c.commands),
	}
	for _, q := range []struct {
		name    string
		part    float64
		samples latencies
	}{{"p50", 0.5, c.latency}, {"p99", 0.99, latencies{}}} {
		result = append(result, comparison{
			work: work("push → Job seen, " + q.name), unit: "ms", figures: ofQuantiles(c.latency.floor, c.latency.ours, q.part),
			samples: q.samples,
		})
		if c != first {
			with := fmt.Sprintf("push → Job seen, %s, times that with %d", q.name, first.count)
			result = append(result, within(work(with), "", mostBesideOne, ofQuantiles(first.latency.ours, c.latency.ours, q.part).ratio))
		}
	}
	return append(result,
		aimed(fmt.Sprintf("operator starts again → Jobs of %d pushes before that", restartPushes), "s", mostRestart, c.operator),
		aimed(fmt.Sprintf("Redis answers again → Jobs of %d pushes after that", restartPushes), "s", mostRestart, c.server))
}
