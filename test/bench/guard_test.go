// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// took is a run in which the operator took so many times as long as the minimal loop, and in a burst made so many times
// as many Jobs.
func took(p50, p99, jobs float64) *results.Run {
	rate := results.Compare("burst", "Jobs/s", 1, jobs)
	rate.AtLeast = 0.9
	return &results.Run{Measurements: []results.Measurement{
		{Name: "latency", Figures: []results.Figure{
			results.Compare("p50", "ms", 1, p50), results.Compare("p99", "ms", 1, p99), results.Alone("CPU", "cores", p50),
		}},
		{Name: "bursts", Figures: []results.Figure{rate}},
	}}
}

// committed are three runs, of which the worst had 1.2, 1.5 and 0.8.
func committed() []*results.Run {
	return []*results.Run{took(1.1, 1.5, 0.9), took(1.2, 1.3, 0.8), took(1.15, 1.4, 0.85)}
}

// tried guards with one of these runs after the other, and the last one again, and returns what was measured.
func tried(runs ...*results.Run) (measured [][]string, err error) {
	err = guard(committed(), []string{"latency", "bursts"}, func(names []string) (*results.Run, error) {
		measured = append(measured, names)
		return runs[min(len(measured), len(runs))-1], nil
	})
	return measured, err
}

func TestWhatIsAsFastAsItWasPasses(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, as := range []*results.Run{took(1.1, 1.4, 0.9), took(0.5, 0.5, 2), took(1.55, 2.9, 0.62)} {
		g.Expect(tried(as, took(100, 100, 0.01))).To(HaveLen(1))
	}
}

func TestASlowerResultFails(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for work, slower := range map[string]*results.Run{
		"p50": took(1.6, 1.4, 0.9), "p99": took(1.1, 3.1, 0.9), "burst": took(1.1, 1.4, 0.6),
	} {
		_, err := tried(slower)
		g.Expect(err).To(MatchError(And(HavePrefix(work+": its ratio to the minimal loop is "), Not(ContainSubstring("\n")))))
	}
	_, err := tried(took(1.6, 3.1, 0.6))
	g.Expect(err).To(MatchError(And(ContainSubstring("p50"), ContainSubstring("p99"), ContainSubstring("burst"))))
}

func TestNoiseDoesNotFail(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	measured := must.Get(tried(took(1.6, 1.4, 0.9), took(1.1, 1.4, 0.01)))(g)
	g.Expect(measured).To(Equal([][]string{{"latency", "bursts"}, {"latency"}}), "only what was too slow is measured again")
	g.Expect(tried(took(1.6, 1.4, 0.9), took(1.1, 3.1, 0.9))).Error().NotTo(HaveOccurred(), "each was fast enough once")
	_, err := tried(took(1.6, 1.4, 0.9), took(1.6, 3.1, 0.9))
	g.Expect(err).To(MatchError(HavePrefix("p50")))
}

func TestWhatIsMeasuredNoMoreFails(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	less := took(1.1, 1.4, 0.9)
	less.Measurements[0].Figures = less.Measurements[0].Figures[1:]
	_, err := tried(less)
	g.Expect(err).To(MatchError("p50: it is no longer measured"))
	_, err = tried(&results.Run{})
	g.Expect(err).To(MatchError(ContainSubstring("burst")))
	err = guard(committed(), []string{"churn"}, func([]string) (*results.Run, error) { return took(1, 1, 1), nil })
	g.Expect(err).To(MatchError(ContainSubstring("compare nothing of churn")))
}

// The night would otherwise fail for what was never published.
func TestWhatTheGuardMeasuresIsCommitted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	runs := must.Get(results.Committed("../../" + committedFolder))(g)
	opts := must.Get(parsed("-guard"))(g)
	g.Expect(opts.names).NotTo(BeEmpty())
	for _, name := range opts.names {
		g.Expect(compare(runs, runs[0], name)).Error().NotTo(HaveOccurred())
	}
}

func TestOtherCoresAreWarnedOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	of := func(cores int) *results.Run { return &results.Run{Cores: cores} }
	g.Expect(otherCores([]*results.Run{of(2), of(2)}, 2)).To(BeEmpty())
	g.Expect(otherCores([]*results.Run{of(2), of(4)}, 2)).To(ContainSubstring("with 4 cores, and this one has 2"))
}
