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

func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	middle := (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	return Spread{Median: middle, Least: sorted[0], Most: sorted[len(sorted)-1]}
}

// Row is a figure of several runs.
type Row struct {
	// First is the figure of the first run: its work, its unit and its target are those of all.
	First *Figure
	// Figures are those of the runs, in their order.
	Figures                []*Figure
	Ours, Reference, Ratio Spread
}

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
		for i, figure := range first.Figures {
			same := m.Find(figure.Work)
			if same == nil || len(m.Figures) != len(first.Figures) {
				return nil, fmt.Errorf("not all runs have the same figures of %s; compare that of %s", name, run.Date.Format(time.RFC3339))
			}
			if rows[i] == nil {
				rows[i] = &Row{First: same}
			}
			rows[i].Figures = append(rows[i].Figures, same)
		}
	}
	for _, row := range rows {
		row.summarize()
	}
	return rows, nil
}

// summarize fills in the spreads.
func (r *Row) summarize() {
	var ours, references, ratios []float64
	for _, figure := range r.Figures {
		references, ratios = append(references, figure.Reference), append(ratios, figure.Ratio)
		if len(figure.Rounds) > 0 {
			ours = append(ours, figure.Rounds...)
		} else {
			ours = append(ours, figure.Ours)
		}
	}
	r.Ours, r.Reference, r.Ratio = spreadOf(ours), spreadOf(references), spreadOf(ratios)
}

// missed reports whether the median misses the target.
func (r *Row) missed() bool {
	switch {
	case r.First.Most > 0:
		return r.Ours.Median > r.First.Most
	case r.First.AtMost > 0:
		return r.Ratio.Median > r.First.AtMost
	default:
		return r.Ratio.Median < r.First.AtLeast
	}
}
