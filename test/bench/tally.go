// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// tally has the values of the contenders, each with those of all its rounds.
type tally struct {
	works   []*tallied
	columns []string
}

// tallied is a line: a kind of work, and what came of it.
type tallied struct {
	name, unit string
	// part is which quantile of the values is the result.
	part float64
	// rounds says that each value is that of a round, and not one of many samples.
	rounds bool
	values map[string][]float64
}

// add adds a value of a contender. A work that nobody has added a value to yet comes last.
func (t *tally) add(work tallied, column string, values ...float64) {
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	at := slices.IndexFunc(t.works, func(known *tallied) bool { return known.name == work.name })
	if at < 0 {
		at = len(t.works)
		work.values = map[string][]float64{}
		t.works = append(t.works, &work)
	}
	known := t.works[at]
	known.values[column] = append(known.values[column], values...)
}

// result is the one of a contender. Whoever has none of a work has no figure of it.
func (w *tallied) result(column string) (result float64, found bool) {
	values := w.values[column]
	if len(values) == 0 {
		return 0, false
	}
	return quantile(values, w.part), true
}

// comparisons are the figures, those of one contender after the other.
func (t *tally) comparisons() (all []comparison) {
	for _, column := range t.columns {
		for _, work := range t.works {
			result, found := work.result(column)
			if !found {
				continue
			}
			c := comparison{work: column + ": " + work.name, unit: work.unit, figures: figures{ours: result}, beside: besideNothing, told: true}
			switch {
			case work.rounds:
				c.rounds = work.values[column]
			case work.part == median:
				c.samples.ours = work.values[column]
			}
			all = append(all, c)
		}
	}
	return all
}

// print writes a column for each contender, and behind each result of several rounds between which values they were.
func (t *tally) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "work\t"+strings.Join(t.columns, "\t")+"\t")
	for _, work := range t.works {
		_, _ = fmt.Fprint(table, work.name+"\t")
		for _, column := range t.columns {
			_, _ = fmt.Fprint(table, work.cell(column)+"\t")
		}
		_, _ = fmt.Fprintln(table)
	}
	return table.Flush()
}

func (w *tallied) cell(column string) string {
	result, found := w.result(column)
	if !found {
		return "–"
	}
	text := strings.TrimSuffix(w.digits(result)+" "+w.unit, " ")
	if values := w.values[column]; w.rounds && len(values) > 1 {
		s := results.SpreadOf(values)
		text += fmt.Sprintf(" (%s–%s)", w.digits(s.Least), w.digits(s.Most))
	}
	return text
}

// digits tells a number. What has no unit is counted.
func (w *tallied) digits(number float64) string {
	if w.unit == "" {
		return strconv.Itoa(int(number))
	}
	return digits(number)
}
