// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/svg"
)

// drawing is what comes of a page.
type drawing struct {
	page  string
	plots []svg.Plot
	// files are further pictures, by their names.
	files map[string]string
	// unmeasured are the tables and plots that stayed as they were.
	unmeasured []string
}

// block is a part of the page that is drawn: its first line, what is in it now, and its last line.
var block = regexp.MustCompile(`(?s)(<!-- drawn: ([^\n]*?) -->\n)(.*?)(<!-- end of drawn -->)`)

// draw draws all blocks of a page, from which the plots are in this folder. A page with everything has a table for whatever
// was measured.
func draw(page, folder string, runs []*results.Run, everything bool) (*drawing, error) {
	d := &drawing{files: map[string]string{}}
	var errs []error
	var shown []string
	d.page = block.ReplaceAllStringFunc(page, func(found string) string {
		parts := block.FindStringSubmatch(found)
		kind, names, _ := strings.Cut(parts[2], " ")
		shown = append(shown, strings.Fields(names)...)
		content, err := d.block(kind, strings.Fields(names), parts[3], folder, runs)
		if err != nil {
			errs = append(errs, fmt.Errorf("drawing %s: %w", parts[2], err))
		}
		return parts[1] + content + parts[4]
	})
	if everything {
		errs = append(errs, allShown(runs, shown))
	}
	return d, errors.Join(append(errs, allClosed(page))...)
}

// allShown fails if something was measured that the page has no table for.
func allShown(runs []*results.Run, shown []string) error {
	for _, run := range runs {
		for _, m := range run.Measurements {
			if !slices.Contains(shown, m.Name) {
				return fmt.Errorf("the page has no table for %s", m.Name)
			}
		}
	}
	return nil
}

// allClosed fails if the end of a block is missing.
func allClosed(page string) error {
	if begun, ended := strings.Count(page, "<!-- drawn: "), strings.Count(page, "<!-- end of drawn -->"); begun != ended {
		return fmt.Errorf("the page has %d beginnings and %d ends of what is drawn", begun, ended)
	}
	return nil
}

// block draws one block, or returns what it is now.
func (d *drawing) block(kind string, names []string, now, folder string, runs []*results.Run) (content string, err error) {
	switch kind {
	case "runs":
		content = runsTable(runs)
	case "table":
		content, err = table(names, runs)
		err = errors.Join(err, nothingLost(now, content))
	case "rivals":
		content, err = rivalsTable(names, runs)
		err = errors.Join(err, nothingLost(now, content))
	case "strips":
		content, err = d.strips(folder, runs)
	case "plot":
		content, err = d.plot(names[0], folder, runs)
	default:
		err = errors.New("nobody knows how to")
	}
	if content == "" || err != nil {
		d.unmeasured = append(d.unmeasured, strings.Join(append([]string{kind}, names...), " "))
		return now, err
	}
	return content, nil
}

// strips draws the times from a push to its Job, and returns the line that shows them.
func (d *drawing) strips(folder string, runs []*results.Run) (string, error) {
	const file = "push-to-job.svg"
	drawn, err := strips(runs)
	if drawn == "" || err != nil {
		return "", err
	}
	d.files[file] = drawn
	return fmt.Sprintf("![Time from a push to its Job, of this operator and of KEDA](%s/%s)\n", folder, file), nil
}

// plot draws one plot, and returns the line that shows it.
func (d *drawing) plot(name, folder string, runs []*results.Run) (string, error) {
	of, known := plots[name]
	if !known {
		return "", errors.New("there is no such plot")
	}
	made, err := of(runs)
	if err != nil || len(made.Lines) == 0 {
		return "", err
	}
	made.File = name + ".svg"
	made.Sum = sumOf(made)
	d.plots = append(d.plots, made)
	return fmt.Sprintf("![%s](%s/%s)\n", made.Title, folder, made.File), nil
}

// nothingLost fails if a table would lose a row, or the content of a cell.
func nothingLost(before, after string) error {
	if after == "" {
		return nil
	}
	left := filledCells(after)
	for _, cell := range filledCells(before) {
		if !slices.Contains(left, cell) {
			return fmt.Errorf("the table would lose the row %q, or what it has for %q; take the row out of the page first, if it is meant to go",
				cell.row, cell.column)
		}
	}
	return nil
}

// cell is a cell of a table, by the first cells of its row and its column.
type cell struct{ row, column string }

// filledCells are those with content.
func filledCells(text string) (cells []cell) {
	var header []string
	for line := range strings.Lines(text) {
		content, isRow := strings.CutPrefix(strings.TrimSuffix(line, " |\n"), "| ")
		if !isRow {
			continue
		}
		row := strings.Split(content, " | ")
		if header == nil {
			header = row
			continue
		}
		for x, filled := range row[1:] {
			if filled != none && x+1 < len(header) {
				cells = append(cells, cell{row[0], header[x+1]})
			}
		}
	}
	return cells
}
