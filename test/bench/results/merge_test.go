// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package results_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// ofRatio is a run whose only figure has this ratio.
func ofRatio(work string, ratio float64) *results.Run {
	return &results.Run{Measurements: []results.Measurement{{Name: "latency", Figures: []results.Figure{
		{Work: work, Beside: results.Loop, Reference: 4, Ours: 4 * ratio, Ratio: results.Ratio(ratio), AtMost: 1.5},
	}}}}
}

func TestRowsAreMediansOfTheRunsThatHaveThem(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	other := &results.Run{Measurements: []results.Measurement{{Name: "bursts"}}}
	rows, err := results.Merge([]*results.Run{ofRatio("p50", 2), other, ofRatio("p50", 1), ofRatio("p50", 1.5)}, "latency")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rows).To(HaveLen(1))
	g.Expect(*rows[0].Ratio).To(Equal(results.Spread{Median: 1.5, Least: 1, Most: 2}))
	g.Expect(rows[0].Ours).To(Equal(results.Spread{Median: 6, Least: 4, Most: 8}))
	g.Expect(rows[0].Missed()).To(BeFalse())
	g.Expect(results.Merge([]*results.Run{other}, "latency")).To(BeEmpty())
}

func TestRowsOfRoundsAreMediansOfAllRounds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ofRounds := func(ours float64, rounds ...float64) *results.Run {
		return &results.Run{Measurements: []results.Measurement{{Name: "keda", Figures: []results.Figure{{Work: "burst", Ours: ours, Rounds: rounds}}}}}
	}
	rows, err := results.Merge([]*results.Run{ofRounds(20, 10, 20, 30), ofRounds(40, 40)}, "keda")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rows[0].Ours).To(Equal(results.Spread{Median: 25, Least: 10, Most: 40}), "between the two in the middle")
}

func TestRunsWithOtherFiguresAreNotMerged(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, runs := range [][]*results.Run{{ofRatio("p50", 1), ofRatio("p99", 1)}, {ofRatio("p99", 1), ofRatio("p50", 1)}} {
		_, err := results.Merge(runs, "latency")
		g.Expect(err).To(MatchError(ContainSubstring("not all runs have the figure")))
	}
}

func TestWhatMissesItsTarget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	missed := func(figure results.Figure) bool {
		rows, err := results.Merge([]*results.Run{{Measurements: []results.Measurement{{Name: "m", Figures: []results.Figure{figure}}}}}, "m")
		g.Expect(err).NotTo(HaveOccurred())
		return rows[0].Missed()
	}
	g.Expect(missed(results.Figure{Ours: 1})).To(BeFalse(), "no target")
	g.Expect(missed(results.Figure{Ratio: results.Ratio(1.5), AtMost: 1.5})).To(BeFalse())
	g.Expect(missed(results.Figure{Ratio: results.Ratio(1.6), AtMost: 1.5})).To(BeTrue())
	g.Expect(missed(results.Figure{Ratio: results.Ratio(0.9), AtLeast: 0.9})).To(BeFalse())
	g.Expect(missed(results.Figure{Ratio: results.Ratio(0.8), AtLeast: 0.9})).To(BeTrue())
	g.Expect(missed(results.Figure{Ours: 5, Most: 5})).To(BeFalse())
	g.Expect(missed(results.Figure{Ours: 6, Most: 5})).To(BeTrue())
	g.Expect(missed(results.Figure{AtMost: 1.5})).To(BeTrue(), "a ratio that is unknown does not meet a target")
}
