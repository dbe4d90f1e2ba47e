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
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// plotProgram is a module of its own, because no other part needs a library for plots.
const plotProgram = "test/bench/plot"

func main() {
	page := flag.String("page", "docs/performance.md", "The page to draw in.")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := report(*page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report draws in the page, and the plots in the folder of the same name beside it.
func report(page string, files []string) error {
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
	if err := drawPlots(folder, drawn.plots); err != nil {
		return err
	}
	for _, name := range drawn.unmeasured {
		fmt.Fprintf(os.Stderr, "%s was not measured, and stays as it is\n", name)
	}
	return os.WriteFile(page, []byte(drawn.page), 0o644)
}

// drawPlots has the plots drawn into a folder.
func drawPlots(folder string, plots []plot) error {
	if len(plots) == 0 {
		return nil
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	input, err := json.Marshal(plots)
	if err != nil {
		return err
	}
	drawing := exec.Command("go", "run", ".", folder)
	drawing.Dir, drawing.Stdin = plotProgram, bytes.NewReader(input)
	if output, err := drawing.CombinedOutput(); err != nil {
		return fmt.Errorf("drawing plots: %w\n%s", err, output)
	}
	return nil
}
