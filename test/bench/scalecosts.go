// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

const (
	mostReady, mostWritesEach = 1.15, 1.05
	// The others are aimed at with manyScaledJobs. Memory is in megabytes.
	manyScaledJobs = 10_000
	// leastCompared is the number of ScaledJobs from which on the creates and the status writes take long enough to compare.
	leastCompared               = 100
	mostResident, mostRestCores = 180.0, 0.08
	mostRestart, mostBesideOne  = 3.0, 1.5
	bytesPerMB                  = 1e6
)

// afterRestart is the work that restartOperator takes the time of.
var afterRestart = fmt.Sprintf("operator starts again → Jobs of %d pushes before that", restartPushes)

// compare tells what the ScaledJobs cost. The latency is compared with the floor, and with that of the first number of
// ScaledJobs in this run.
func (c *scaleCosts) compare(first *scaleCosts) []comparison {
	work := func(what string) string { return fmt.Sprintf("%d ScaledJobs: %s", c.count, what) }
	above := c.ready - c.creating
	all := []comparison{alone(work("created by a bare loop"), "s", c.creating)}
	if c.count >= leastCompared {
		all = append(all, comparison{
			work: work("all Ready, beyond the creates"), unit: "s",
			figures: figures{c.writing, above, above / c.writing}, atMost: mostReady, beside: "bare status writes",
		})
	}
	all = append(all,
		c.aimed(work("status writes each until all are Ready"), "", mostWritesEach, c.untilReady),
		alone(work("status writes each until all hear by notifications"), "", c.untilRest))
	all = append(all, c.resting(work)...)
	all = append(all,
		alone(work("CPU time of one resync of all"), "s", c.cores*resyncInterval.Seconds()),
		alone(work("commands at rest"), "/s", c.commands))
	all = append(all, c.reaction(work)...)
	if c != first {
		for _, q := range []struct {
			name string
			part float64
		}{{"p50", 0.5}, {"p99", 0.99}} {
			with := fmt.Sprintf("push → Job seen, %s, times that with %d", q.name, first.count)
			all = append(all, within(work(with), "", mostBesideOne, ofQuantiles(first.latency.ours, c.latency.ours, q.part).ratio))
		}
	}
	return append(all,
		c.aimed(work(afterRestart), "s", mostRestart, c.operator),
		c.aimed(work(fmt.Sprintf("Redis answers again → Jobs of %d pushes after that", restartPushes)), "s", mostRestart, c.server))
}

// resting tells what the operator takes at rest.
func (c *scaleCosts) resting(work func(what string) string) []comparison {
	return []comparison{
		c.aimed(work("memory of the process"), "MB", mostResident, c.resident/bytesPerMB),
		alone(work("memory of objects in use"), "MB", c.live/bytesPerMB),
		c.aimed(work("CPU at rest"), "cores", mostRestCores, c.cores),
	}
}

// reaction tells how soon a message has its Job.
func (c *scaleCosts) reaction(work func(what string) string) []comparison {
	of := func(name string, part float64) comparison {
		return comparison{
			work: work("push → Job seen, " + name), unit: "ms", figures: ofQuantiles(c.latency.floor, c.latency.ours, part),
		}
	}
	p50, p99 := of("p50", 0.5), of("p99", 0.99)
	p50.samples = c.latency
	return []comparison{p50, p99}
}

// aimed is a result that has a limit if there are many ScaledJobs.
func (c *scaleCosts) aimed(work, unit string, limit, ours float64) comparison {
	if c.count < manyScaledJobs {
		return alone(work, unit, ours)
	}
	return within(work, unit, limit, ours)
}
