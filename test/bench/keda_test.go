// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// parse reads a command line, and returns which measurements it asks for.
func parse(t *testing.T, args ...string) (size sizes, names string, err error) {
	t.Helper()
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	measure := size.flags(set)
	err = set.Parse(args)
	return size, size.asked(*measure), err
}

func TestContendersAskForTheirMeasurement(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, test := range []struct {
		args         string
		names, chose string
	}{
		{"-contenders=keda", "keda", "keda-1s-best,keda-1s,keda-30s"},
		{"-contenders=keda-30s,keda-1s", "keda", "keda-30s,keda-1s"},
		{"-contenders=keda -measure=latency", "latency,keda", "keda-1s-best,keda-1s,keda-30s"},
		{"-contenders=keda -measure=keda,latency", "keda,latency", "keda-1s-best,keda-1s,keda-30s"},
		{"-measure=keda", "keda", "keda-1s-best,keda-1s,keda-30s"},
		{"-measure=latency", "latency", "keda-1s-best,keda-1s,keda-30s"},
	} {
		size, names, err := parse(t, strings.Fields(test.args)...)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(names).To(Equal(test.names), test.args)
		g.Expect(size.contenders.String()).To(Equal(test.chose), test.args)
	}
	_, names, err := parse(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).NotTo(ContainSubstring("keda"), "KEDA takes minutes to build")
	_, _, err = parse(t, "-contenders=kueue")
	g.Expect(err).To(MatchError(ContainSubstring(`"kueue" is neither keda nor one of keda-1s-best,keda-1s,keda-30s`)))
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

func TestSlowRivalsTakeFewerSamples(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, r := range kedas() {
		p := &stage{rival: r, size: sizes{samples: 400, rounds: 20}}
		smallest := &stage{rival: r, size: sizes{samples: 2, rounds: 1}}
		if r.interval > time.Second {
			g.Expect(p.samples()).To(Equal(8))
			g.Expect(p.rounds()).To(Equal(1))
		} else {
			g.Expect(p.samples()).To(Equal(100))
			g.Expect(p.rounds()).To(Equal(3))
		}
		g.Expect(smallest.samples()).To(Equal(1))
		g.Expect(smallest.rounds()).To(Equal(1))
	}
}

// tallySample has a work in rounds, one of samples, and one that only one contender does.
func tallySample() *tally {
	t := &tally{}
	t.add(tallied{name: "burst", unit: "Jobs/s", part: median, rounds: true}, loopName, 900, 1200, 1100)
	t.add(tallied{name: "push → Job, p99", unit: "ms", part: tail}, loopName, 4, 5)
	t.add(tallied{name: "push → Job, p99", unit: "ms", part: tail}, operatorName, 6, 5)
	t.add(tallied{name: "burst", unit: "Jobs/s", part: median, rounds: true}, operatorName, 1000)
	t.add(tallied{name: "push → Job, p50", unit: "ms", part: median}, operatorName, 6, 5, 9)
	t.add(tallied{name: "storm", unit: "cores", part: median, rounds: true}, operatorName, 0.05)
	t.add(tallied{name: "Jobs too many", part: median, rounds: true}, operatorName, 0, 122)
	return t
}

func TestTallyHasAFigureForEachContenderAndWork(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	m := measured(besideKEDA, 0, tallySample().comparisons())
	works := make([]string, len(m.Figures))
	for i, f := range m.Figures {
		works[i] = f.Work
	}
	g.Expect(works).To(Equal([]string{
		"minimal loop: burst", "minimal loop: push → Job, p99",
		"operator: burst", "operator: push → Job, p99", "operator: push → Job, p50", "operator: storm", "operator: Jobs too many",
	}))
	burst := m.Find("minimal loop: burst")
	g.Expect(burst.Ours).To(Equal(1100.0))
	g.Expect(burst.Rounds).To(Equal([]float64{900, 1200, 1100}))
	g.Expect(burst.Ratio).To(BeNil())
	latency := m.Find("minimal loop: push → Job, p99")
	g.Expect(latency.Ours).To(Equal(5.0))
	g.Expect(latency.Rounds).To(BeEmpty(), "it is a quantile of samples")
	g.Expect(m.Find("operator: push → Job, p50").Samples.Ours.Values).To(Equal([]float64{5, 6, 9}))
}

func TestTallyIsPrintedWithAColumnForEachContender(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var out strings.Builder
	g.Expect(tallySample().print(&out)).To(Succeed())
	lines := strings.Split(out.String(), "\n")
	g.Expect(lines[0]).To(MatchRegexp(`^work +minimal loop +operator`))
	g.Expect(lines[1]).To(MatchRegexp(`^burst +1100\.0 Jobs/s \(900\.0–1200\.0\) +1000\.0 Jobs/s`))
	g.Expect(lines[4]).To(MatchRegexp(`^storm +– +0\.050 cores`))
	g.Expect(lines[5]).To(MatchRegexp(`^Jobs too many +– +0 \(0–122\)`))
}

func TestSurplusIsOfAllScaledJobsTogether(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	seen := &arrivals{seen: map[string][]arrival{"mail": {{}, {}}, "fanout-0": {{}, {}, {}}}}
	owner := &contender{sj: newScaledJob("example", "messages", "redis:6379"), arrivals: seen, pushed: 2}
	member := owner.another("fanout-0")
	member.pushed = 1
	g.Expect(surplus(owner, crowd{member})).To(Equal(2.0))
	g.Expect(surplus(owner, nil)).To(Equal(0.0))
}

func TestLastLinesOfALog(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(lastLines("one\ntwo\n")).To(Equal("one\ntwo"))
	g.Expect(strings.Split(lastLines(strings.Repeat("line\n", 100)), "\n")).To(HaveLen(20))
}
