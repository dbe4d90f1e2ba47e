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

// figures are what was measured of both contenders, and the ratio of ours to the floor's.
type figures struct{ floor, ours, ratio float64 }

// comparison says what figures are of, and what their ratio should be: at most or at least so much, whichever is not 0.
type comparison struct {
	figures

	work, unit      string
	atMost, atLeast float64
}

// target is the ratio that should be, and whether it is met.
func (c comparison) target() (text string, met bool) {
	if c.atMost > 0 {
		return fmt.Sprintf("≤ %.2f", c.atMost), c.ratio <= c.atMost
	}
	return fmt.Sprintf("≥ %.2f", c.atLeast), c.ratio >= c.atLeast
}

// printTable writes one line per comparison.
func printTable(out io.Writer, comparisons []comparison) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "work\tfloor\tours\tratio\ttarget\t")
	for _, c := range comparisons {
		target, met := c.target()
		verdict := "met"
		if !met {
			verdict = "missed"
		}
		_, _ = fmt.Fprintf(table, "%s\t%.1f %s\t%.1f %s\t%.2f\t%s\t%s\n", c.work, c.floor, c.unit, c.ours, c.unit, c.ratio, target, verdict)
	}
	return table.Flush()
}

// ofQuantiles compares the same quantile of two sets of samples.
func ofQuantiles(floor, ours []float64, part float64) figures {
	f := figures{floor: quantile(floor, part), ours: quantile(ours, part)}
	f.ratio = f.ours / f.floor
	return f
}

// ofRounds compares the medians. The ratio is the median of those of the single rounds, whose two measurements were taken one right
// after the other: on a machine with something else to do, the rounds differ more than the contenders.
func ofRounds(floor, ours []float64) figures {
	ratios := make([]float64, len(ours))
	for i := range ratios {
		ratios[i] = ours[i] / floor[i]
	}
	return figures{floor: quantile(floor, 0.5), ours: quantile(ours, 0.5), ratio: quantile(ratios, 0.5)}
}

// quantile is the smallest value that at least the given part of the values, of which there is one or more, do not exceed.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
