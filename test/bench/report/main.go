// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command report draws the tables and plots of the pages on performance from the committed results of the benchmarks.
// It replaces what is between two comments of a page, and leaves the rest alone:
//
//	<!-- drawn: runs -->                    what the runs were taken on
//	<!-- drawn: table latency bursts -->    the figures of these measurements
//	<!-- drawn: rivals p50 burst -->        the operator and KEDA, with these lines; without names, all lines
//	<!-- drawn: strips -->                  the time from a push to its Job with the operator and with KEDA
//	<!-- drawn: plot latency -->            a plot
//	<!-- end of drawn -->
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/svg"
)

// folder has the results and the pictures.
const folder = "docs/contributing/benchmarks"

// pages are those that are drawn.
var pages = []string{"docs/contributing/benchmarks.md", "docs/explanation/performance.md", "docs/explanation/comparison.md", "README.md"}

// block is a part of a page that is drawn: its first line, what is in it, and its last line.
var block = regexp.MustCompile(`(?s)(<!-- drawn: ([^\n]*?) -->\n)(.*?)(<!-- end of drawn -->)`)

func main() {
	if err := report(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(ctx context.Context) error {
	d, err := draw(".")
	if err != nil {
		return err
	}
	for path, text := range d.files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return svg.Draw(ctx, folder, d.plots)
}

// drawing is what comes of the results.
type drawing struct {
	runs []*results.Run
	// files are the pages, and the pictures that no library draws, by their paths.
	files map[string]string
	plots []svg.Plot
}

// draw draws all pages of the repository that is in this folder.
func draw(root string) (*drawing, error) {
	runs, err := results.Committed(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	d := &drawing{runs: runs, files: map[string]string{}}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		if d.files[page], err = d.page(page, string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
	}
	return d, nil
}

// page draws all blocks of a page.
func (d *drawing) page(path, text string) (drawn string, err error) {
	pictures, err := filepath.Rel(filepath.Dir(path), folder)
	if err != nil {
		return "", err
	}
	var errs []error
	drawn = block.ReplaceAllStringFunc(text, func(found string) string {
		parts := block.FindStringSubmatch(found)
		names := strings.Fields(parts[2])
		content, err := d.block(filepath.ToSlash(pictures), names[0], names[1:])
		if err != nil {
			errs = append(errs, fmt.Errorf("drawing %s: %w", parts[2], err))
		}
		return parts[1] + content + parts[4]
	})
	if begun, ended := strings.Count(text, "<!-- drawn: "), strings.Count(text, "<!-- end of drawn -->"); begun != ended {
		errs = append(errs, fmt.Errorf("there are %d beginnings and %d ends of what is drawn", begun, ended))
	}
	return drawn, errors.Join(errs...)
}

// block draws one block of a page that has the pictures in this folder.
func (d *drawing) block(pictures, kind string, names []string) (string, error) {
	switch kind {
	case "runs":
		return results.Runs(d.runs), nil
	case "table":
		return results.Table(d.runs, names...)
	case "rivals":
		return rivalsTable(d.runs, names)
	case "strips":
		const file = "push-to-job.svg"
		drawn, err := strips(d.runs)
		d.files[folder+"/"+file] = drawn
		return fmt.Sprintf("![Time from a push to its Job, of this operator and of KEDA](%s/%s)\n", pictures, file), err
	case "plot":
		made, err := plot(d.runs, strings.Join(names, " "))
		d.plots = append(d.plots, made)
		return fmt.Sprintf("![%s](%s/%s)\n", made.Title, pictures, made.File), err
	default:
		return "", errors.New("this kind is unknown")
	}
}
