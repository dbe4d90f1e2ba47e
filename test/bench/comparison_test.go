// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	values := []float64{30, 10, 20, 40}
	g.Expect(quantile(values, 0.5)).To(BeEquivalentTo(20))
	g.Expect(quantile(values, 0.51)).To(BeEquivalentTo(30))
	g.Expect(quantile(values, 0.99)).To(BeEquivalentTo(40))
	g.Expect(quantile(values, 0)).To(BeEquivalentTo(10))
	g.Expect(values[0]).To(BeEquivalentTo(30), "the values keep their order")
}

func TestRatioOfRounds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	is := ofRounds([]float64{100, 50, 100}, []float64{40, 80, 80})
	g.Expect([]float64{is.reference, is.ours, is.ratio}).To(HaveExactElements(
		BeNumerically("~", 75), BeNumerically("~", 60), BeNumerically("~", 0.8)))
}

func TestTableTellsWhetherTargetsAreMet(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var table strings.Builder
	g.Expect(printTable(&table, []comparison{
		{work: "slower", unit: "ms", figures: figures{4, 5, 1.25}, atMost: 1.25},
		{work: "too slow", unit: "ms", figures: figures{4, 5.1, 1.275}, atMost: 1.25},
		{work: "fast", unit: "Jobs/s", figures: figures{100, 90, 0.9}, atLeast: 0.9},
		{work: "not fast", unit: "Jobs/s", figures: figures{100, 89, 0.89}, atLeast: 0.9},
		within("cheap", "cores", 0.1, 0.025),
		{work: "soon", unit: "ms", figures: figures{4, 54, 13.5}, most: 54},
		{work: "late", unit: "ms", figures: figures{4, 54.1, 13.525}, most: 54},
		{work: "without a target", unit: "s", figures: figures{1, 2, 2}},
		{work: "told", told: true},
		alone("without a reference", "/s", 3),
	})).To(Succeed())
	lines := strings.Split(table.String(), "\n")
	g.Expect(lines[1]).To(MatchRegexp(`^slower +4\.0 ms +5\.0 ms +1\.25 +≤ 1\.25 +met$`))
	g.Expect(lines[2]).To(MatchRegexp(`^too slow .* missed$`))
	g.Expect(lines[3]).To(MatchRegexp(`^fast .* met$`))
	g.Expect(lines[4]).To(MatchRegexp(`^not fast .* missed$`))
	g.Expect(lines[5]).To(MatchRegexp(`^cheap +0\.100 cores +0\.025 cores +0\.25 +≤ 1\.00 +met$`))
	g.Expect(lines[6]).To(MatchRegexp(`^soon +4\.0 ms +54\.0 ms +13\.50 +≤ 54\.0 ms +met$`))
	g.Expect(lines[7]).To(MatchRegexp(`^late .* missed$`))
	g.Expect(lines[8]).To(MatchRegexp(`^without a target +1\.0 s +2\.0 s +2\.00 +– *$`))
	g.Expect(lines[9]).To(MatchRegexp(`^without a reference +– +3\.0 /s +– +– *$`))
	g.Expect(lines[10:]).To(Equal([]string{""}), "what is told elsewhere has no line")
}

func TestNoTableIsPrintedOfWhatIsToldElsewhere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var table strings.Builder
	g.Expect(printTable(&table, []comparison{{work: "told", told: true}})).To(Succeed())
	g.Expect(table.String()).To(BeEmpty())
}
