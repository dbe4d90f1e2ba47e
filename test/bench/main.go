// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how fast messages become Jobs, on a real API server and a real Redis, and compares the
// operator with the floor: a bare loop that does the least there is to do (see the folder floor). The two take turns in
// one run, so that whatever else the machine does hits both; the ratios are what to look at. So it does for single
// messages, for bursts, for single messages to many queues, for single messages beside a burst or beside a namespace that
// does its worst, and for Jobs that finish and are to be replaced. Besides, it compares the operator while other Redis
// servers are silent with itself while they are not, and measures what floods of messages, ten thousand keys and dead
// servers cost, how many ScaledJobs may change until their statuses are late, and how long nobody creates Jobs when the
// leader ends.
//
// If asked to, it lets the same messages come to workers of every kind under every scaling strategy, and prints a table
// in Markdown: how many Jobs that took, how many of them found no message, and how long the messages waited.
//
//	go run ./test/bench
//	go run ./test/bench -measure=latency,bursts
//	go run ./test/bench -measure=strategies
//
// It fails if either makes another number of Jobs than there are messages. A missed target is only shown: one run on a
// busy machine proves little.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// timeout bounds the whole run.
const timeout = 30 * time.Minute

// sizes say how much is measured.
type sizes struct{ samples, rounds, burst int }

// measurement is one of those to choose from.
type measurement struct {
	name string
	take func(context.Context, io.Writer, *setting, sizes) ([]comparison, error)
	// onDemand says that it is only taken by its name.
	onDemand bool
}

var measurements = []measurement{
	{name: "latency", take: measureLatency},
	{name: "bursts", take: measureBursts},
	{name: "tracking", take: measureTracking},
	{name: "fanout", take: measureFanOut},
	{name: "keys", take: measureKeys},
	{name: "isolation", take: measureIsolation},
	{name: "saturation", take: measureSaturation},
	{name: "dials", take: measureDials},
	{name: "fairness", take: measureFairness},
	{name: "neighbours", take: measureNeighbours},
	{name: "statuses", take: measureStatuses},
	{name: "churn", take: measureChurn},
	{name: "failover", take: measureFailover},
	{name: "strategies", take: measureStrategies, onDemand: true},
}

func main() {
	var size sizes
	flag.IntVar(&size.samples, "samples", 400, "How many single messages to push to each, at least 2.")
	flag.IntVar(&size.rounds, "rounds", 10, "How many bursts to push to each, at least 1.")
	flag.IntVar(&size.burst, "burst", 1000, "How many messages are in a burst, at least 1.")
	names := flag.String("measure", list(false), "What to measure, separated by commas. Besides, there is "+list(true)+".")
	flag.Parse()
	chosen, err := choose(*names)
	if err != nil || flag.NArg() > 0 || size.samples < 2 || min(size.rounds, size.burst) < 1 {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(ctx, chosen, size)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// list are the names of the measurements that are taken by their names only, or of the others.
func list(onDemand bool) string {
	var names []string
	for _, m := range measurements {
		if m.onDemand == onDemand {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ",")
}

// choose returns the measurements of these names.
func choose(names string) (chosen []measurement, err error) {
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no measurement %q", name)
		}
		chosen = append(chosen, measurements[at])
	}
	return chosen, nil
}

func run(ctx context.Context, chosen []measurement, size sizes) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var log io.Writer = os.Stderr
	s, err := newSetting(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	var comparisons []comparison
	for _, m := range chosen {
		taken, err := m.take(ctx, log, s, size)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", m.name, err)
		}
		comparisons = append(comparisons, taken...)
	}
	if len(comparisons) == 0 {
		return nil
	}
	return printTable(os.Stdout, comparisons)
}
