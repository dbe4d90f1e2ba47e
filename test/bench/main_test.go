// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func parsed(args ...string) (*options, error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return parse(set, args)
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for args, names := range map[string]string{
		"":                                       "latency,bursts,fanout,fairness,churn",
		"-guard":                                 "latency,bursts,fanout,fairness,churn",
		"-measure=latency,scale -scale=7,9":      "latency,scale",
		"-contenders=keda":                       "keda",
		"-contenders=keda-30s,keda-1s":           "keda",
		"-contenders=keda -measure=keda,latency": "keda,latency",
	} {
		opts := must.Get(parsed(strings.Fields(args)...))(g)
		g.Expect(opts.names).To(Equal(strings.Split(names, ",")), args)
		var options []string
		for _, r := range opts.rivals {
			options = append(options, r.option)
		}
		if strings.Contains(args, "keda-30s") {
			g.Expect(options).To(Equal([]string{"keda-30s", "keda-1s"}))
		} else {
			g.Expect(options).To(Equal([]string{"keda-1s-best", "keda-1s", "keda-30s"}))
		}
		if strings.Contains(args, "-scale") {
			g.Expect(opts.scale).To(Equal([]int{7, 9}))
		}
	}
	for wrong, expected := range map[string]string{
		"-measure=jobs": `there is no measurement "jobs"`, "-contenders=kueue": `"kueue" is neither keda`,
		"-scale=1,,2": `"" is not a number`, "-scale=0": `"0" is not a number`, "more": "too many",
	} {
		_, err := parsed(wrong)
		g.Expect(err).To(MatchError(ContainSubstring(expected)), wrong)
	}
}

func TestOffsetsAreSpreadOverThePolls(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := offsets(5, 10*time.Second)
	slices.Sort(all)
	for i, offset := range all {
		g.Expect(offset).To(BeNumerically("~", time.Duration(2*i+1)*time.Second, time.Second))
	}
	g.Expect(offsets(3, 0)).To(HaveEach(time.Duration(0)), "the operator does not poll")
}

// samplePair is a pair whose loop and rival have seen some Jobs, which need no servers.
func samplePair() *pair {
	of := func(name string, pushed int, jobs ...string) *subject {
		seen := &arrivals{seen: map[string][]arrival{}}
		for _, scaledJob := range jobs {
			seen.seen[scaledJob] = append(seen.seen[scaledJob], arrival{})
		}
		return &subject{name: name, sj: newScaledJob("example", "mail", "redis:6379"), arrivals: seen, pushed: pushed}
	}
	loop, rival := of(results.Loop, 1, "mail"), of("KEDA", 2, "mail", "mail", "fanout-0", "fanout-0", "fanout-0")
	return &pair{setting: &setting{loop: loop, operator: rival}, rival: rival}
}

func TestSurplusIsOfAllScaledJobsTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := samplePair()
	other := p.rival.sibling("fanout-0")
	other.pushed = 1
	p.interval = time.Second
	g.Expect(p.surplus(p.rival, nil)).To(Equal(0))
	g.Expect(p.surplus(p.rival, subjects{other})).To(Equal(2))
	p.interval = 0
	_, err := p.surplus(p.rival, subjects{other})
	g.Expect(err).To(MatchError(ContainSubstring("it has created +2 Jobs more")), "only KEDA, which polls, may have any")
	p.interval, p.loop.pushed = time.Second, 5
	g.Expect(p.surplus(p.loop, nil)).Error().To(MatchError(ContainSubstring("it has created -4 Jobs more")))
}

func TestATallyHasAFigureForEachProgramAndWork(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p, found := samplePair(), &tally{}
	found.add(p, "push → Job, p99", "ms", tail, values{p.loop: {4, 5}, p.rival: {6, 5}})
	found.add(p, "burst", "Jobs/s", 0, values{p.loop: {900, 1200}})
	found.add(p, "burst", "Jobs/s", 0, values{p.loop: {1100}, p.rival: {1000}})
	g.Expect(found.figures()).To(Equal([]results.Figure{
		{Work: "minimal loop: push → Job, p99", Unit: "ms", Ours: 5},
		{Work: "KEDA: push → Job, p99", Unit: "ms", Ours: 6},
		{Work: "minimal loop: burst", Unit: "Jobs/s", Ours: 1100, Rounds: []float64{900, 1200, 1100}},
		{Work: "KEDA: burst", Unit: "Jobs/s", Ours: 1000, Rounds: []float64{1000}},
	}))
}

func TestWhatBothAreComparedBy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := samplePair()
	p50, p99 := p.quantiles("push", values{p.loop: {1, 2, 3, 4}, p.rival: {8, 2, 6, 4}})
	g.Expect([]results.Figure{p50, p99}).To(Equal([]results.Figure{
		results.Compare("push, p50", "ms", 2, 4), results.Compare("push, p99", "ms", 4, 8),
	}))
	g.Expect(harmonicMean([]float64{1000, 250})).To(BeEquivalentTo(400), "as if both bursts were one")
	g.Expect(ofRounds(map[*subject][][]float64{p.rival: {{1, 9}, {3, 4}}}, 1)).To(Equal(values{p.rival: {9, 4}}))
}

func TestOnlyManyScaledJobsHaveTargets(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	few, many := &scale{members: make(subjects, 100)}, &scale{members: make(subjects, manyScaledJobs)}
	few.add("CPU", "cores", 1, 0.5)
	many.add("CPU", "cores", 1, 0.5)
	g.Expect(few.all).To(Equal([]results.Figure{{Work: "100 ScaledJobs: CPU", Unit: "cores", Ours: 1}}))
	g.Expect(many.all).To(Equal([]results.Figure{{Work: "10000 ScaledJobs: CPU", Unit: "cores", Ours: 1, Most: 0.5}}))
}

func TestLastLinesOfALog(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(lastLines("one\ntwo\n")).To(Equal("one\ntwo"))
	g.Expect(strings.Split(lastLines(strings.Repeat("line\n", 100)), "\n")).To(HaveLen(20))
}

// Whatever can be measured has a table on the page, which make bench-report fills.
func TestEveryMeasurementHasATable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page := must.Get(os.ReadFile("../../docs/contributing/benchmarks.md"))(g)
	var shown []string
	for line := range strings.Lines(string(page)) {
		if names, isTable := strings.CutPrefix(line, "<!-- drawn: table "); isTable {
			shown = append(shown, strings.Fields(strings.TrimSuffix(names, " -->\n"))...)
		}
	}
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	g.Expect(shown).To(ConsistOf(names))
}
