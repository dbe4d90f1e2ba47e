// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// figures are what was measured of the operator and what it is compared with, and the ratio of the two.
type figures struct{ reference, ours, ratio float64 }

// comparison says what figures are of, and what is aimed at, by whichever is not 0, if any: a ratio of at most or at
// least so much, or most for the operator itself.
type comparison struct {
	figures

	work, unit            string
	atMost, atLeast, most float64
	// beside says what the reference is. The zero value means the floor.
	beside besides
	// samples are those that the figures, and the ones of the same kind behind them, are quantiles of, and curves those
	// of whole rounds. Plots are drawn of both.
	samples latencies
	curves  *results.Curves
	// rounds are the values whose median the figure is.
	rounds []float64
	// told says that another table has it.
	told bool
}

// besides is a reference other than the floor.
type besides string

const (
	besideLimit   besides = results.Limit
	besideNothing besides = "nothing"
)

// figure is the comparison for the document.
func (c comparison) figure() results.Figure {
	f := results.Figure{
		Work: c.work, Unit: c.unit, Ours: results.Round(c.ours), Beside: cmp.Or(string(c.beside), results.Loop),
		Reference: results.Round(c.reference), Ratio: results.Ratio(c.ratio),
		AtMost: c.atMost, AtLeast: c.atLeast, Most: c.most, Curves: c.curves,
	}
	if c.beside == besideNothing {
		f.Beside, f.Reference, f.Ratio = results.Nothing, 0, nil
	}
	for _, value := range c.rounds {
		f.Rounds = append(f.Rounds, results.Round(value))
	}
	if len(c.samples.ours) > 0 {
		f.Samples = &results.Samples{
			Reference: results.Distribute(c.samples.floor), Ours: results.Distribute(c.samples.ours),
		}
	}
	return f
}

// alone is a result that is compared with nothing.
func alone(work, unit string, ours float64) comparison {
	return comparison{work: work, unit: unit, figures: figures{ours: ours}, beside: besideNothing}
}

// within compares with a figure that should not be exceeded.
func within(work, unit string, limit, ours float64) comparison {
	return comparison{work: work, unit: unit, figures: figures{limit, ours, ours / limit}, atMost: 1, beside: besideLimit}
}

// target is what is aimed at, and whether it is met. Some comparisons have none.
func (c comparison) target() (aim, verdict string) {
	var met bool
	switch {
	case c.atMost > 0:
		aim, met = fmt.Sprintf("≤ %.2f", c.atMost), c.ratio <= c.atMost
	case c.atLeast > 0:
		aim, met = fmt.Sprintf("≥ %.2f", c.atLeast), c.ratio >= c.atLeast
	case c.most > 0:
		aim, met = fmt.Sprintf("≤ %s %s", digits(c.most), c.unit), c.ours <= c.most
	default:
		return "–", ""
	}
	if met {
		return aim, "met"
	}
	return aim, "missed"
}

// printTable writes one line per comparison that no other table has.
func printTable(out io.Writer, comparisons []comparison) error {
	comparisons = slices.DeleteFunc(slices.Clone(comparisons), func(c comparison) bool { return c.told })
	if len(comparisons) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "work\treference\tours\tratio\ttarget\t")
	for _, c := range comparisons {
		target, verdict := c.target()
		reference, ratio := digits(c.reference)+" "+c.unit, fmt.Sprintf("%.2f", c.ratio)
		if c.beside == besideNothing {
			reference, ratio = "–", "–"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s %s\t%s\t%s\t%s\n", c.work, reference, digits(c.ours), c.unit, ratio, target, verdict)
	}
	return table.Flush()
}

// digits tells as much of a number as a measurement is worth.
func digits(number float64) string {
	if number < 1 {
		return fmt.Sprintf("%.3f", number)
	}
	return fmt.Sprintf("%.1f", number)
}

// ofQuantiles compares the same quantile of two sets of samples.
func ofQuantiles(reference, ours []float64, part float64) figures {
	f := figures{reference: quantile(reference, part), ours: quantile(ours, part)}
	f.ratio = f.ours / f.reference
	return f
}

// ofRounds compares the rates of all rounds together, which all had the same work: their harmonic means. In a round in
// which the API server collects garbage, it is much slower than in another one, so a median would be that of rounds with
// or of rounds without.
func ofRounds(reference, ours []float64) figures {
	is := figures{reference: harmonicMean(reference), ours: harmonicMean(ours)}
	is.ratio = is.ours / is.reference
	return is
}

func harmonicMean(values []float64) float64 {
	inverse := 0.0
	for _, each := range values {
		inverse += 1 / each
	}
	return float64(len(values)) / inverse
}

// quantile is the smallest value that at least the given part of the values, of which there is one or more, do not
// exceed.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
