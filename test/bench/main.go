// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how fast messages become Jobs, on a real API server and a real Redis. The operator and a
// minimal loop (folder loop) take turns, so that other load affects both: compare the ratios.
//
//	go run ./test/bench
//	go run ./test/bench -measure=latency,bursts
//	go run ./test/bench -measure=scale -scale=1,100
//	go run ./test/bench -contenders=keda
//	go run ./test/bench -json=results.json
//	go run ./test/bench -guard
//
// It fails if the operator or the minimal loop creates another number of Jobs than there are messages. A missed target
// is only shown: one run on a busy machine proves little. With -guard it fails if the operator became slower than it
// was in the committed results.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// timeout bounds the whole run.
const timeout = 3 * time.Hour

// Of single messages there are samples, and of bursts rounds.
const samples, rounds = 400, 20

// choices are what some measurements can be limited to.
type choices struct {
	// scale are numbers of ScaledJobs.
	scale  []int
	rivals []rival
}

// measurement is one of those to choose from.
type measurement struct {
	name string
	take func(context.Context, *pair, choices) ([]results.Figure, error)
	// onDemand says that it is only taken by its name.
	onDemand bool
}

var measurements = []measurement{
	{name: "latency", take: measureLatency},
	{name: "bursts", take: measureBursts},
	{name: "fanout", take: measureFanOut},
	{name: "fairness", take: measureFairness},
	{name: "churn", take: measureChurn},
	{name: "scale", take: measureScale, onDemand: true},
	{name: kedaName, take: measureKEDA, onDemand: true},
}

// options are what the command line asks for.
type options struct {
	choices

	names []string // of measurements
	file  string
	guard bool
}

func main() {
	set := flag.CommandLine
	opts, err := parse(set, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		set.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = opts.run(ctx, os.Stdout, os.Stderr)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(set *flag.FlagSet, args []string) (*options, error) {
	opts := &options{choices: choices{scale: []int{1, 100, 1000, 10_000}, rivals: rivals()}}
	measure := set.String("measure", "", "What to measure, separated by commas: "+list(false)+", which is the default, "+list(true)+".")
	kedas := set.String("contenders", "", "Which settings of KEDA do the same work: keda for all, or some of keda-1s-best,keda-1s,keda-30s. Unless -measure says more, only that is measured.")
	scale := set.String("scale", "", "With how many ScaledJobs to measure scale, separated by commas.")
	set.StringVar(&opts.file, "json", "", "Where to write the figures as JSON, after each measurement.")
	set.BoolVar(&opts.guard, "guard", false, "Fail if the operator is slower than in the committed results.")
	err := set.Parse(args)
	names := list(false)
	if *kedas != "" {
		var wrong error
		opts.rivals, wrong = chooseRivals(*kedas)
		err, names = errors.Join(err, wrong), kedaName
	}
	if *scale != "" {
		var wrong error
		opts.scale, wrong = parseNumbers(*scale)
		err = errors.Join(err, wrong)
	}
	opts.names = strings.Split(cmp.Or(*measure, names), ",")
	for _, name := range opts.names {
		if find(name) == nil {
			err = errors.Join(err, fmt.Errorf("there is no measurement %q", name))
		}
	}
	if set.NArg() > 0 {
		err = errors.Join(err, errors.New("there is an argument too many"))
	}
	return opts, err
}

// parseNumbers takes numbers of at least 1, separated by commas.
func parseNumbers(text string) (numbers []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(part)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("%q is not a number of at least 1", part)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// list has the names of the measurements that are only taken by their names, or of the others.
func list(onDemand bool) string {
	var names []string
	for _, m := range measurements {
		if m.onDemand == onDemand {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ",")
}

// find returns the measurement of this name, and nil if there is none.
func find(name string) *measurement {
	at := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
	if at < 0 {
		return nil
	}
	return &measurements[at]
}

// run measures once, or until it is clear whether the operator became slower.
func (o *options) run(ctx context.Context, out, log io.Writer) error {
	ctrllog.SetLogger(logr.Discard())
	if !o.guard {
		_, err := o.measure(ctx, out, log, o.names)
		return err
	}
	committed, err := results.Committed(committedFolder)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprint(log, otherCores(committed, runtime.NumCPU()))
	err = guard(committed, o.names, func(names []string) (*results.Run, error) { return o.measure(ctx, out, log, names) })
	if err == nil {
		_, _ = fmt.Fprintln(out, "No figure is slower than in the committed results by more than its margin.")
	}
	return err
}

// measure starts the servers, and takes these measurements.
func (o *options) measure(ctx context.Context, out, log io.Writer, names []string) (run *results.Run, err error) {
	busy := load()
	if slices.Contains(names, kedaName) { // Building it takes minutes. Nothing else is to run meanwhile.
		if _, err := keda.Build(ctx, log); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := newSetting(ctx, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	if run, err = s.describe(ctx); err != nil {
		return nil, err
	}
	run.Load = busy
	for _, name := range names {
		if err := o.take(ctx, out, log, s, run, find(name)); err != nil {
			return nil, fmt.Errorf("measuring %s: %w", name, err)
		}
	}
	return run, nil
}

// take adds what one measurement has found, and prints it.
func (o *options) take(ctx context.Context, out, log io.Writer, s *setting, run *results.Run, m *measurement) error {
	shown := progress.Start(log, "measuring "+m.name)
	figures, err := m.take(ctx, &pair{setting: s, rival: s.operator, shown: shown}, o.choices)
	shown.Stop()
	if len(figures) == 0 {
		return err
	}
	run.Measurements = append(run.Measurements, results.Measurement{Name: m.name, Figures: figures})
	if o.file != "" {
		err = errors.Join(err, run.Write(o.file))
	}
	table, wrong := results.Table([]*results.Run{run}, m.name)
	_, _ = fmt.Fprintln(out, table)
	return errors.Join(err, wrong)
}
