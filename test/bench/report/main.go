// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command report draws the tables and plots of the page on performance from the results of one or more runs of the
// benchmarks:
//
//	go run ./test/bench/report first.json second.json …
//
// It replaces what is between two comments of the page, and leaves the rest alone:
//
//	<!-- drawn: runs -->                    on what the runs were taken
//	<!-- drawn: table latency bursts -->    the figures of these measurements
//	<!-- drawn: plot latency -->            a plot, as an SVG file beside the page
//	<!-- end of drawn -->
//
// What no run has measured stays as it is. A row that a table had and would lose is an error: take it out of the page
// first, if it is meant to go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/svg"
)

func main() {
	page := flag.String("page", "docs/explanation/performance.md", "The page to draw in.")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := report(context.Background(), *page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report draws in the page, and the plots in the folder of the same name beside it.
func report(ctx context.Context, page string, files []string) error {
	runs, err := results.Read(files...)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	folder := strings.TrimSuffix(page, filepath.Ext(page))
	drawn, err := draw(string(text), filepath.Base(folder), runs)
	if err != nil {
		return err
	}
	if err := svg.Draw(ctx, folder, drawn.plots); err != nil {
		return err
	}
	for _, name := range drawn.unmeasured {
		fmt.Fprintf(os.Stderr, "%s was not measured, and stays as it is\n", name)
	}
	return os.WriteFile(page, []byte(drawn.page), 0o644)
}
