// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// figures are what was measured of the operator and what it is compared with, and the ratio of the two.
type figures struct{ reference, ours, ratio float64 }

// comparison says what figures are of, and what is aimed at, by whichever is not 0, if any: a ratio of at most or at
// least so much, or most for the operator itself.
type comparison struct {
	figures

	work, unit            string
	atMost, atLeast, most float64
}

// within compares with a figure that should not be exceeded.
func within(work, unit string, limit, ours float64) comparison {
	return comparison{work: work, unit: unit, figures: figures{limit, ours, ours / limit}, atMost: 1}
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

// printTable writes one line per comparison.
func printTable(out io.Writer, comparisons []comparison) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "work\treference\tours\tratio\ttarget\t")
	for _, c := range comparisons {
		target, verdict := c.target()
		_, _ = fmt.Fprintf(table, "%s\t%s %s\t%s %s\t%.2f\t%s\t%s\n",
			c.work, digits(c.reference), c.unit, digits(c.ours), c.unit, c.ratio, target, verdict)
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

// ofRounds compares the medians. The ratio is the median of those of the single rounds, whose two measurements were
// taken one right after the other: on a machine with something else to do, the rounds differ more than the contenders.
func ofRounds(reference, ours []float64) figures {
	ratios := make([]float64, len(ours))
	for i := range ratios {
		ratios[i] = ours[i] / reference[i]
	}
	return figures{reference: quantile(reference, 0.5), ours: quantile(ours, 0.5), ratio: quantile(ratios, 0.5)}
}

// quantile is the smallest value that at least the given part of the values, of which there is one or more, do not
// exceed.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
