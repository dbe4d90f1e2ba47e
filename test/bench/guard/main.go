// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command guard measures the tree again and fails if the operator has become slower, compared with the minimal loop in
// the same run, than it was in the results that are committed:
//
//	go run ./test/bench/guard
//
// Only ratios are compared, so the machine may be another one, but should have the same number of cores. What is too slow
// is measured again: a figure fails if it is too slow each time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

func main() {
	committed := flag.String("committed", "docs/contributing/benchmarks/*.json", "The results to compare with.")
	names := flag.String("measure", "latency,bursts,fanout,fairness,churn", "What to measure, separated by commas.")
	tries := flag.Int("tries", 3, "How often to measure what is too slow.")
	flag.Parse()
	if flag.NArg() > 0 || *tries < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *committed, strings.Split(*names, ","), *tries)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("No figure is slower than in the committed results by more than its margin.")
}

// run compares with the results of these files.
func run(ctx context.Context, committed string, names []string, tries int) error {
	files, err := filepath.Glob(committed)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no committed results: %s", committed)
	}
	runs, err := results.Read(files...)
	if err != nil {
		return err
	}
	if note := otherCores(runs, runtime.NumCPU()); note != "" {
		fmt.Fprintln(os.Stderr, note)
	}
	folder, err := os.MkdirTemp("", "guard")
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "run.json")
	err = guard(runs, names, tries, func(names []string) (*results.Run, error) { return measure(ctx, names, file) })
	return errors.Join(err, os.RemoveAll(folder))
}

// measure takes these measurements, by way of a file.
func measure(ctx context.Context, names []string, file string) (*results.Run, error) {
	bench := exec.CommandContext(ctx, "go", "run", "./test/bench", "-measure="+strings.Join(names, ","), "-json="+file)
	bench.Stdout, bench.Stderr = os.Stdout, os.Stderr
	if err := bench.Run(); err != nil {
		return nil, fmt.Errorf("measuring: %w", err)
	}
	runs, err := results.Read(file)
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}
