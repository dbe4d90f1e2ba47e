// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"slices"
	"time"
)

// Spread is the median of several runs, or of all their rounds, and between which values all of them are.
type Spread struct{ Median, Least, Most float64 }

// SpreadOf returns the spread of one or more values.
func SpreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	return Spread{Median: middle, Least: sorted[0], Most: sorted[len(sorted)-1]}
}

// Row is a figure of several runs. Ratio is nil unless all have one.
type Row struct {
	// Figures are those of the runs, in their order.
	Figures         []*Figure
	Ours, Reference Spread
	Ratio           *Spread
}

// Work is what was measured.
func (r *Row) Work() string { return r.Figures[0].Work }

// Merge returns the rows of a measurement, of all runs that took it, and nothing if none did. It fails unless all of
// these have the same figures.
func Merge(runs []*Run, name string) (rows []*Row, err error) {
	var first *Measurement
	for _, run := range runs {
		m := run.Find(name)
		if m == nil {
			continue
		}
		if first == nil {
			first, rows = m, make([]*Row, len(m.Figures))
		}
		if missing := firstMissing(first, m); missing != "" {
			return nil, fmt.Errorf("not all runs have the figure %q of %s; compare that of %s", missing, name, run.Date.Format(time.RFC3339))
		}
		for i, figure := range first.Figures {
			if rows[i] == nil {
				rows[i] = &Row{}
			}
			rows[i].Figures = append(rows[i].Figures, m.Find(figure.Work))
		}
	}
	for _, row := range rows {
		row.summarize()
	}
	return rows, nil
}

// firstMissing is a figure that one of them has, and the other has not.
func firstMissing(one, other *Measurement) string {
	for _, pair := range [][2]*Measurement{{one, other}, {other, one}} {
		for _, figure := range pair[0].Figures {
			if pair[1].Find(figure.Work) == nil {
				return figure.Work
			}
		}
	}
	return ""
}

// summarize fills in the spreads.
func (r *Row) summarize() {
	var ours, references, ratios []float64
	for _, figure := range r.Figures {
		references = append(references, figure.Reference)
		if len(figure.Rounds) > 0 {
			ours = append(ours, figure.Rounds...)
		} else {
			ours = append(ours, figure.Ours)
		}
		if figure.Ratio != nil {
			ratios = append(ratios, *figure.Ratio)
		}
	}
	r.Ours, r.Reference = SpreadOf(ours), SpreadOf(references)
	if len(ratios) == len(r.Figures) {
		ratio := SpreadOf(ratios)
		r.Ratio = &ratio
	}
}

// Missed reports whether the median misses what is aimed at. Without an aim, nothing is missed.
func (r *Row) Missed() bool {
	aim := r.Figures[0]
	switch {
	case aim.Most > 0:
		return r.Ours.Median > aim.Most
	case r.Ratio == nil:
		return aim.AtMost > 0 || aim.AtLeast > 0
	case aim.AtMost > 0:
		return r.Ratio.Median > aim.AtMost
	default:
		return r.Ratio.Median < aim.AtLeast
	}
}
