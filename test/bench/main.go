// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how fast messages become Jobs, on a real API server and a real Redis. The operator and a minimal
// loop (folder floor) take turns, so that other load affects both: compare the ratios. Other measurements compare the
// operator with itself, with a limit, or with KEDA.
//
//	go run ./test/bench
//	go run ./test/bench -measure=latency,bursts
//	go run ./test/bench -measure=strategies
//	go run ./test/bench -measure=scale -scale=1,100
//	go run ./test/bench -contenders=keda
//	go run ./test/bench -json=results.json
//
// It fails if the operator or the minimal loop creates another number of Jobs than there are messages. A missed target is
// only shown: one run on a busy machine proves little.
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
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// timeout bounds the whole run.
const timeout = 3 * time.Hour

// sizes say how much is measured.
type sizes struct {
	samples, rounds, burst int
	// scale are numbers of ScaledJobs.
	scale numbers
	// What is measured beside KEDA, and with which of its settings.
	contenders       contenders
	queues, messages int
	storm            time.Duration
}

// numbers is a flag: numbers of at least 1, separated by commas.
type numbers []int

func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*n)), " ", ","), "[]")
}

// Set replaces all numbers.
func (n *numbers) Set(text string) error {
	*n = nil
	for part := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(part)
		if err != nil || number < 1 {
			return fmt.Errorf("%q is not a number of at least 1", part)
		}
		*n = append(*n, number)
	}
	return nil
}

// measurement is one of those to choose from.
type measurement struct {
	name string
	take func(context.Context, io.Writer, *setting, sizes) ([]comparison, error)
	// prepare is what takes long the first time, if anything does. Nothing else runs meanwhile.
	prepare func(context.Context, io.Writer) error
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
	{name: "modes", take: measureModes},
	{name: "neighbours", take: measureNeighbours},
	{name: "statuses", take: measureStatuses},
	{name: "churn", take: measureChurn},
	{name: "failover", take: measureFailover},
	{name: "scale", take: measureScale, onDemand: true},
	{name: "servers", take: measureServers, onDemand: true},
	{name: "jobs", take: measureJobs, onDemand: true},
	{name: "scrapes", take: measureScrapes, prepare: prepareScrapes, onDemand: true},
	{name: "strategies", take: measureStrategies, onDemand: true},
	{name: besideKEDA, take: measureKEDA, prepare: prepareKEDA, onDemand: true},
}

func main() {
	size := sizes{scale: numbers{1, 100, 1000, 10_000}}
	names := size.flags(flag.CommandLine)
	file := flag.String("json", "", "Where to write the figures as JSON, after each measurement.")
	flag.Parse()
	chosen, err := choose(size.asked(*names))
	if err == nil {
		err = size.check()
	}
	if err != nil || flag.NArg() > 0 {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(ctx, chosen, size, *file)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flags has the command line set the sizes, and returns what names the measurements.
func (s *sizes) flags(set *flag.FlagSet) (names *string) {
	const samples, rounds, burst, queues, messages = 400, 20, 1000, 300, 300
	set.IntVar(&s.samples, "samples", samples, "How many single messages to push to each, at least 2.")
	set.IntVar(&s.rounds, "rounds", rounds, "How many bursts to push to each, at least 1.")
	set.IntVar(&s.burst, "burst", burst, "How many messages are in a burst, at least 1.")
	set.Var(&s.scale, "scale", "With how many ScaledJobs to measure scale.")
	all := contenders(kedas())
	set.Var(&s.contenders, "contenders",
		"What to have the same work done after the operator, separated by commas: keda, or some of "+all.String()+". Unless -measure says more, only that is measured.")
	set.IntVar(&s.queues, "queues", queues, "Beside KEDA: how many queues get a message each.")
	set.IntVar(&s.messages, "messages", messages, "Beside KEDA: how many messages are processed, few at once.")
	set.DurationVar(&s.storm, "storm", floodTime, "Beside KEDA: for how long messages are pushed to a queue at its limit.")
	return set.String("measure", list(false), "What to measure, separated by commas. Besides, there is "+list(true)+".")
}

func (s *sizes) check() error {
	if s.samples < 2 || min(s.rounds, s.burst, s.queues, s.messages) < 1 || s.storm <= 0 {
		return errors.New("there is too little to measure")
	}
	return nil
}

// asked are the measurements that these names and the contenders ask for.
func (s *sizes) asked(names string) string {
	switch {
	case len(s.contenders) == 0:
		s.contenders = kedas()
		return names
	case names == list(false):
		return besideKEDA
	case slices.Contains(strings.Split(names, ","), besideKEDA):
		return names
	default:
		return names + "," + besideKEDA
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

// prepare does what takes long the first time, before the servers run.
func prepare(ctx context.Context, log io.Writer, chosen []measurement) error {
	for _, m := range chosen {
		if m.prepare == nil {
			continue
		}
		if err := m.prepare(ctx, log); err != nil {
			return fmt.Errorf("preparing %s: %w", m.name, err)
		}
	}
	return nil
}

func run(ctx context.Context, chosen []measurement, size sizes, file string) (err error) {
	ctrllog.SetLogger(logr.Discard())
	var log io.Writer = os.Stderr
	busy := load()
	if err := prepare(ctx, log, chosen); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := newSetting(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	document, err := s.describe(ctx, size)
	if err != nil {
		return err
	}
	document.Load = busy
	var comparisons []comparison
	for _, m := range chosen {
		began := time.Now()
		taken, err := m.take(ctx, log, s, size)
		if len(taken) > 0 {
			comparisons = append(comparisons, taken...)
			document.Measurements = append(document.Measurements, measured(m.name, time.Since(began), taken))
		}
		if file != "" && len(taken) > 0 {
			err = errors.Join(err, document.Write(file))
		}
		if err != nil {
			return fmt.Errorf("measuring %s: %w", m.name, err)
		}
	}
	return printTable(os.Stdout, comparisons)
}
