// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// timesOf makes a figure that took so many times as long as its reference.
func timesOf(work, beside string, reference, ratio float64) results.Figure {
	return results.Figure{Work: work, Unit: "ms", Beside: beside, Reference: reference, Ours: reference * ratio, Ratio: results.Ratio(ratio), AtMost: 1.5}
}

func within(work, unit string, limit, ours float64) results.Figure {
	return results.Figure{
		Work: work, Unit: unit, Beside: results.Limit, Reference: limit, Ours: ours, Ratio: results.Ratio(ours / limit), AtMost: 1,
	}
}

func alone(work, unit string, ours float64) results.Figure {
	return results.Figure{Work: work, Unit: unit, Ours: ours}
}

// ofRounds makes a figure that is the second of three values.
func ofRounds(work, unit string, rounds ...float64) results.Figure {
	return results.Figure{Work: work, Unit: unit, Ours: rounds[1], Rounds: rounds}
}

// sampleRun is a run with figures of all kinds. The slower the machine, the longer they are.
func sampleRun(day int, slow float64) *results.Run {
	p50 := timesOf("push → Job seen, p50", results.Loop, 4*slow, 1+slow/10)
	p50.Samples = &results.Samples{
		Reference: results.Distribute([]float64{3 * slow, 4 * slow, 5 * slow}), Ours: results.Distribute([]float64{4 * slow, 5 * slow}),
	}
	rate := results.Figure{
		Work: "burst of 1000", Unit: "Jobs/s", Beside: results.Loop, Reference: 1200 / slow, Ours: 1100 / slow, Ratio: results.Ratio(0.85),
		AtLeast: 0.9, Curves: &results.Curves{
			Count: 1000, Reference: [][]float64{{100 * slow, 500 * slow}}, Ours: [][]float64{{150 * slow, 900 * slow}, {200 * slow, 950 * slow}},
		},
	}
	scale := func(count string, cost float64) []results.Figure {
		return []results.Figure{
			timesOf(count+" ScaledJobs: all Ready, beyond the creates", "bare status writes", 10*cost, slow),
			within(count+" ScaledJobs: memory of the process", "MB", 180, 60+cost*slow),
			alone(count+" ScaledJobs: CPU at rest", "cores", cost/1000),
		}
	}
	return &results.Run{
		Version: results.Version, Date: time.Date(2030, 1, day, 9, 30, 0, 0, time.UTC), Commit: "0123456789ab", Modified: day == 2,
		Go: "go1.26.0", CPU: "A CPU", Cores: 2, Load: 0.25 * slow, Kubernetes: "v1.36.3", Redis: "Redis 7.0.15",
		Measurements: []results.Measurement{
			{Name: "latency", Figures: []results.Figure{p50, timesOf("push → Job seen, p99", results.Loop, 6*slow, 1.75)}},
			{Name: "bursts", Figures: []results.Figure{rate}},
			{Name: "saturation", Figures: []results.Figure{
				within("one queue: CPU", "cores", 0.1, 0.0412*slow), timesOf("many queues: CPU", "one queue", 0.04, 5),
				alone("one queue: pushes", "/s", 19_987*slow),
			}},
			{Name: "failover", Figures: []results.Figure{{
				Work: "kill", Unit: "s", Beside: "lease duration", Reference: 15, Ours: 17, Ratio: results.Ratio(1.133), Most: 16,
			}}},
			{Name: "keys", Figures: []results.Figure{alone("commands", "/s", 376.4*slow)}},
			{Name: "scale", Figures: append(scale("1", 1), scale("1000", 200)...)},
			{Name: "strategies", Figures: []results.Figure{
				alone("Default, a worker pops: Jobs", "", 60), alone("Default, a worker pops: waiting time", "s", 0.8),
				alone("Eager, a worker pops: Jobs", "", 158), alone("Eager, a worker pops: waiting time", "s", 0.7),
			}},
			{Name: "keda", Figures: []results.Figure{
				ofRounds("minimal loop: burst of 1000", "Jobs/s", 1300/slow, 1200/slow, 1100/slow), alone("minimal loop: burst of 1000, Jobs too many", "", 0),
				ofRounds("KEDA, 1 s: burst of 1000", "Jobs/s", 630/slow, 620/slow, 610/slow), alone("KEDA, 1 s: burst of 1000, Jobs too many", "", 122),
				alone("KEDA, 1 s: storm, CPU", "cores", 0.001),
			}},
		},
	}
}

func sampleRuns() []*results.Run {
	return []*results.Run{sampleRun(1, 1), sampleRun(2, 1.5), sampleRun(3, 2)}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func TestPageIsDrawn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	drawn, err := draw(readPage(t, "page.md"), "page", sampleRuns(), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(drawn.page).To(Equal(readPage(t, "drawn.md")))
	g.Expect(drawn.unmeasured).To(Equal([]string{"table dials"}))
	again, err := draw(drawn.page, "page", sampleRuns(), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(drawn), "it can be drawn again")
}

// without calls do for each figure, with runs that lack it: the first one, or all.
func without(everywhere bool, do func(work string, runs []*results.Run)) {
	for m, measurement := range sampleRun(1, 1).Measurements {
		for f := range measurement.Figures {
			runs := sampleRuns()
			for i, run := range runs {
				if figures := run.Measurements[m].Figures; i == 0 || everywhere {
					run.Measurements[m].Figures = slices.Concat(figures[:f], figures[f+1:])
				}
			}
			do(measurement.Name+": "+measurement.Figures[f].Work, runs)
		}
	}
}

func TestNoFigureMayBeMissingInOneOfTheRuns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	without(false, func(work string, runs []*results.Run) {
		_, err := draw(readPage(t, "page.md"), "page", runs, true)
		g.Expect(err).To(HaveOccurred(), work)
	})
}

func TestNoTableLosesARow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lost := 0
	without(true, func(work string, runs []*results.Run) {
		drawn, err := draw(readPage(t, "drawn.md"), "page", runs, true)
		g.Expect(err != nil || drawn.page == readPage(t, "drawn.md")).To(BeTrue(), work)
		if err != nil {
			lost++
		}
	})
	g.Expect(lost).To(BeNumerically(">", 10))
}

func TestRowsThatAreMeantToGoAreTakenOutOfThePageFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := strings.ReplaceAll(readPage(t, "drawn.md"), "| commands |", "| another name |")
	_, err := draw(page, "page", sampleRuns(), true)
	g.Expect(err).To(MatchError(ContainSubstring(`lose the row "another name", or what it has for "operator"`)))
}

func TestNoTableLosesACell(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := strings.ReplaceAll(readPage(t, "drawn.md"), "| commands | 565 per second (376–753) |", "| commands | 565 per second (376–753) | 5 |")
	page = strings.ReplaceAll(page, "| work | operator |\n", "| work | operator | another |\n")
	_, err := draw(page, "page", sampleRuns(), true)
	g.Expect(err).To(MatchError(ContainSubstring(`what it has for "another"`)))
}

func TestWhatIsMeasuredHasATable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := draw(strings.ReplaceAll(readPage(t, "page.md"), "drawn: table keys", "drawn: table other"), "page", sampleRuns(), true)
	g.Expect(err).To(MatchError("the page has no table for keys"))
}

func TestPagesWithMistakesAreNotDrawn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for wrong, expected := range map[string]string{
		"<!-- drawn: plot nothing -->\n<!-- end of drawn -->\n": "there is no such plot",
		"<!-- drawn: rivals speed -->\n<!-- end of drawn -->\n": `there is no line "speed"`,
		"<!-- drawn: poem latency -->\n<!-- end of drawn -->\n": "nobody knows how to",
		"<!-- drawn: table latency -->\n":                       "beginnings and",
	} {
		_, err := draw(wrong+readPage(t, "page.md"), "page", sampleRuns(), true)
		g.Expect(err).To(MatchError(ContainSubstring(expected)), wrong)
	}
}

func TestPlots(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	drawn, err := draw(readPage(t, "page.md"), "page", sampleRuns(), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(drawn.plots).To(HaveLen(3))
	latency, burst, memory := drawn.plots[0], drawn.plots[1], drawn.plots[2]
	g.Expect(latency.File).To(Equal("latency.svg"))
	g.Expect(latency.Lines).To(HaveLen(2))
	g.Expect(latency.Lines[0].Points).To(HaveLen(9), "the samples of all runs")
	g.Expect(latency.Lines[1].Points[5]).To(Equal([2]float64{10, 100}))
	g.Expect(burst.Lines[0].Points).To(Equal([][2]float64{{0, 0}, {150, 500}, {750, 1000}}), "the median of three rounds")
	g.Expect(burst.Lines[1].Points[2]).To(Equal([2]float64{1387.5, 1000}), "the median of six rounds")
	g.Expect(memory.Lines).To(ConsistOf(HaveField("Points", [][2]float64{{1, 61.5}, {1000, 360}})))
}

func TestPagesThatNeedNotShowEverything(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	drawn, err := draw("<!-- drawn: table keys -->\n<!-- end of drawn -->\n", "elsewhere", sampleRuns(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(drawn.page).To(ContainSubstring("| commands |"))
}

// rivalRun has figures of which the user's table makes something else.
func rivalRun() *results.Run {
	return &results.Run{Measurements: []results.Measurement{{Name: "keda", Figures: []results.Figure{
		alone("minimal loop: push → Job seen, p50", "ms", 3), alone("operator: push → Job seen, p50", "ms", 4.123), alone("operator: push → Job seen, p99", "ms", 16),
		alone("KEDA: push → Job seen, p50", "ms", 13_570), alone("KEDA: push → Job seen, p99", "ms", 26_470),
		ofRounds("operator: 300 queues get a message each within 1s, Jobs too many", "", 0, 0, 0),
		ofRounds("KEDA: 300 queues get a message each within 1s, Jobs too many", "", 0, 7, 104),
	}}}}
}

func TestRivalsAreComparedInTheWordsOfUsers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	table, err := rivalsTable([]string{"p50", "surplus"}, []*results.Run{rivalRun()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(table).To(Equal(`|  | operator | KEDA |
|---|---|---|
| push → Job, median | 4.12 ms | 13.6 s |
| 300 queues get a message each, most surplus Jobs | 0 | 104 |
`))
}

func TestRivalsWithAndWithoutSamples(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	run := rivalRun()
	plot, err := rivals([]*results.Run{run})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plot.Lines).To(HaveLen(2))
	g.Expect(plot.Lines[0].Points).To(Equal([][2]float64{{4.123, 50}, {16, 99}}))
	g.Expect(plot.Lines[1].Points).To(Equal([][2]float64{{13_570, 50}, {26_470, 99}}))
	run.Measurements[0].Figures[1].Samples = &results.Samples{Ours: results.Distribute([]float64{3, 4, 5, 16})}
	plot, err = rivals([]*results.Run{run})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plot.Lines[0].Points).To(Equal([][2]float64{{3, 25}, {4, 50}, {5, 75}, {16, 100}}))
}

func TestAPlotOfOtherFiguresHasAnotherSum(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	one, err := bursts([]*results.Run{sampleRun(1, 1)})
	g.Expect(err).NotTo(HaveOccurred())
	other, err := bursts([]*results.Run{sampleRun(1, 1.01)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sumOf(one)).NotTo(Equal(sumOf(other)))
	one.Sum = "what it was"
	g.Expect(sumOf(one)).To(HaveLen(64))
	again, err := bursts([]*results.Run{sampleRun(1, 1)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sumOf(one)).To(Equal(sumOf(again)))
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for value, expected := range map[float64]string{
		0: "0", 0.0412: "0.041", 0.5: "0.5", 1: "1", 1.234: "1.23", 15: "15", 15.04: "15", 15.06: "15.1", 999.6: "1,000", 1234.5: "1,234",
		1234567: "1,234,567", 0.0004: "0",
	} {
		g.Expect(number(value)).To(Equal(expected))
	}
	g.Expect(spread(results.Spread{Median: 4.4, Least: 4.1, Most: 5}, "ms")).To(Equal("4.4 ms (4.1–5)"))
	g.Expect(spread(results.Spread{Median: 4.4, Least: 4.4, Most: 4.4001}, "/s")).To(Equal("4.4 per second"))
}
