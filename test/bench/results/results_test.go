// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// runOf is a run with one measurement, which is called latency.
func runOf(figures ...Figure) *Run {
	return &Run{
		Date: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Commit: "0123456789ab",
		Measurements: []Measurement{{Name: "latency", Figures: figures}},
	}
}

func TestARunIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "run.json")
	p50 := Compare("p50", "ms", 4, 5.12345)
	p50.Samples = Sorted([]float64{5, 3, 4}, []float64{5.12345})
	g.Expect(p50.Ratio).To(BeEquivalentTo(1.281))
	written := runOf(p50, Alone("rate", "Jobs/s", 900))
	g.Expect(written.Write(path)).To(Succeed())
	g.Expect(Committed(folder)).To(Equal([]*Run{written}))
	text := must.Get(os.ReadFile(path))(g)
	g.Expect(string(text)).To(ContainSubstring(`"reference": [3,4,5]`), "one line for a list")
	g.Expect(os.WriteFile(path, []byte(`{"commit": "0123456789ab", "seconds": 1}`), 0o600)).To(Succeed())
	g.Expect(Committed(folder)).Error().To(MatchError(ContainSubstring(`reading run.json: json: unknown field "seconds"`)))
	g.Expect(Committed(t.TempDir())).Error().To(MatchError(ContainSubstring("there are no committed results")))
}

func TestRowsAreMediansOfTheRunsThatHaveThem(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rounds := func(ours float64, rounds ...float64) Figure {
		figure := Alone("burst", "Jobs/s", ours)
		figure.Rounds = rounds
		return figure
	}
	other := &Run{Measurements: []Measurement{{Name: "churn"}}}
	rows := must.Get(Merge([]*Run{
		runOf(Compare("p50", "ms", 4, 8), rounds(20, 10, 20, 30)), other, runOf(Compare("p50", "ms", 4, 4), rounds(40, 40)),
	}, "latency"))(g)
	g.Expect(rows).To(HaveLen(2))
	g.Expect(rows[0].Ratio).To(Equal(Spread{Median: 1.5, Least: 1, Most: 2}))
	g.Expect(rows[0].Ours).To(Equal(Spread{Median: 6, Least: 4, Most: 8}))
	g.Expect(rows[1].Ours).To(Equal(Spread{Median: 25, Least: 10, Most: 40}), "of all rounds, between the two in the middle")
	g.Expect(Merge([]*Run{other}, "latency")).To(BeEmpty())
}

func TestRunsWithOtherFiguresAreNotMerged(t *testing.T) {
	t.Parallel()
	p50, p99 := Alone("p50", "ms", 4), Alone("p99", "ms", 4)
	for _, runs := range [][]*Run{{runOf(p50), runOf(p99)}, {runOf(p50), runOf(p50, p99)}, {runOf(p50, p99), runOf(p50)}} {
		_, err := Merge(runs, "latency")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("not all runs have the same figures of latency")))
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		figure   Figure
		expected string
	}{
		{Figure{Ours: 1}, "–"},
		{Figure{Ratio: 1.5, AtMost: 1.5}, "ratio ≤ 1.5"},
		{Figure{Ratio: 1.6, AtMost: 1.5}, "ratio ≤ 1.5, missed"},
		{Figure{Ratio: 0.9, AtLeast: 0.9}, "ratio ≥ 0.9"},
		{Figure{Ratio: 0.8, AtLeast: 0.9}, "ratio ≥ 0.9, missed"},
		{Figure{Ours: 5, Ratio: 9, Most: 5, Unit: "MB"}, "≤ 5 MB"},
		{Figure{Ours: 6, Most: 5, Unit: "/s"}, "≤ 5 per second, missed"},
	} {
		rows, err := Merge([]*Run{runOf(test.figure)}, "latency")
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(rows[0].target()).To(Equal(test.expected))
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for value, expected := range map[float64]string{
		0: "0", 0.0412: "0.041", 0.5: "0.5", 1: "1", 1.234: "1.23", 15: "15", 15.04: "15", 15.06: "15.1", 999.6: "1,000", 1234.5: "1,234",
		1234567: "1,234,567", 0.0004: "0", -1234: "-1,234", -123: "-123",
	} {
		g.Expect(Number(value)).To(Equal(expected))
	}
	g.Expect(Spread{Median: 4.4, Least: 4.1, Most: 5}.show("ms")).To(Equal("4.4 ms (4.1–5)"))
	g.Expect(Spread{Median: 4.4, Least: 4.4, Most: 4.4001}.show("/s")).To(Equal("4.4 per second"))
}

func TestRunsShowWhetherTheTreeHadChanges(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	run := runOf(Alone("p50", "ms", 4))
	run.Go, run.Kubernetes, run.Redis, run.CPU, run.Cores, run.Load, run.Modified = "go1.26.0", "v1.37.0", "Redis 7.0.15", "A CPU", 2, 0.25, true
	g.Expect(Runs([]*Run{run})).To(HaveSuffix(
		"| 2030-01-02 03:04 | 0123456789ab, with changes | 1.26.0 | 1.37.0 | Redis 7.0.15 | 2 cores, A CPU | 0.25 | latency |\n"))
}

// Whoever reads the documents finds each field explained.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := must.Get(os.ReadFile("../../../docs/contributing/benchmarks.md"))(g)
	_, section, found := strings.Cut(string(page), "## Results as JSON")
	g.Expect(found).To(BeTrue())
	for _, of := range []any{Run{}, Measurement{}, Figure{}, Samples{}} {
		kind := reflect.TypeOf(of)
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			g.Expect(section).To(ContainSubstring("`"+name+"`"), kind.Name())
		}
	}
}
