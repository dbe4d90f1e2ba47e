// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command report draws the tables and plots of the pages on performance from the results of one or more runs of the
// benchmarks:
//
//	go run ./test/bench/report first.json second.json …
//
// It replaces what is between two comments of a page, and leaves the rest alone:
//
//	<!-- drawn: runs -->                    on what the runs were taken
//	<!-- drawn: table latency bursts -->    the figures of these measurements
//	<!-- drawn: rivals p50 burst -->        the operator and KEDA, with these lines; without names, all lines
//	<!-- drawn: strips -->                  the time from a push to its Job, as an SVG file in the folder of the first page
//	<!-- drawn: plot latency -->            a plot, as an SVG file in the folder of the first page
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
	page := flag.String("page", "docs/contributing/benchmarks.md", "The page with all figures. The plots are in the folder of the same name next to it.")
	others := flag.String("others", "README.md,docs/explanation/performance.md,docs/explanation/comparison.md", "Pages with some of the figures, separated by commas.")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	pages := append([]string{*page}, strings.FieldsFunc(*others, func(r rune) bool { return r == ',' })...)
	if err := report(context.Background(), pages, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report draws in the pages, the first of which has all figures, and the plots in the folder of the same name next to that
// page.
func report(ctx context.Context, pages, files []string) error {
	runs, err := results.Read(files...)
	if err != nil {
		return err
	}
	folder := strings.TrimSuffix(pages[0], filepath.Ext(pages[0]))
	texts := map[string]string{}
	var plots []svg.Plot
	for i, page := range pages {
		drawn, err := drawFile(page, folder, runs, i == 0)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		texts[page], plots = drawn.page, append(plots, drawn.plots...)
		for name, file := range drawn.files {
			texts[filepath.Join(folder, name)] = file
		}
		for _, name := range drawn.unmeasured {
			fmt.Fprintf(os.Stderr, "%s: %s was not measured, and stays as it is\n", page, name)
		}
	}
	if err := svg.Draw(ctx, folder, plots); err != nil {
		return err
	}
	for path, text := range texts {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// drawFile draws a page, which may have to show everything that was measured.
func drawFile(page, folder string, runs []*results.Run, everything bool) (*drawing, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	fromPage, err := filepath.Rel(filepath.Dir(page), folder)
	if err != nil {
		return nil, err
	}
	return draw(string(text), filepath.ToSlash(fromPage), runs, everything)
}
