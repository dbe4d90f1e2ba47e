// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package results_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// run is a run with one figure of each kind.
func run() *results.Run {
	return &results.Run{
		Version: results.Version, Date: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Commit: "0123456789ab",
		Measurements: []results.Measurement{{Name: "latency", Seconds: 90, Figures: []results.Figure{
			{Work: "p50", Unit: "ms", Beside: results.Loop, Reference: 4, Ours: 5, Ratio: results.Ratio(1.25), Samples: &results.Samples{
				Reference: results.Distribute([]float64{5, 3, 4}), Ours: results.Distribute([]float64{5}),
			}},
			{Work: "rate", Unit: "Jobs/s", Ours: 900, Curves: &results.Curves{Count: 2, Ours: [][]float64{{1.5, 2.5}}}},
		}}},
	}
}

func TestARunIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "run.json")
	g.Expect(run().Write(path)).To(Succeed())
	read, err := results.Read(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read).To(Equal([]*results.Run{run()}))
	text, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(ContainSubstring(`"values": [3,4,5]`), "one line for a distribution")
}

func TestOtherSchemasAreNotRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "run.json")
	newer := run()
	newer.Version++
	g.Expect(newer.Write(path)).To(Succeed())
	_, err := results.Read(path)
	g.Expect(err).To(MatchError(ContainSubstring("reading run.json: it has version")))
}

func TestFiguresThatCannotBeToldApartAreNotWritten(t *testing.T) {
	t.Parallel()
	twice := run()
	twice.Measurements[0].Figures = append(twice.Measurements[0].Figures, twice.Measurements[0].Figures[0])
	NewWithT(t).Expect(twice.Write(filepath.Join(t.TempDir(), "run.json"))).To(MatchError(`latency has two figures of "p50"`))
}

func TestADistributionKeepsItsShapeAndItsEnds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var values []float64
	for i := range 100_000 {
		values = append(values, float64(100_000-i))
	}
	kept := results.Distribute(values)
	g.Expect(kept.Count).To(Equal(100_000))
	g.Expect(kept.Values).To(HaveLen(results.MostSamples))
	g.Expect(slices.IsSorted(kept.Values)).To(BeTrue())
	g.Expect(kept.Values[0]).To(BeEquivalentTo(1))
	g.Expect(kept.Values[results.MostSamples/2]).To(BeNumerically("~", 50_000, 200))
	g.Expect(kept.Values[results.MostSamples-1]).To(BeEquivalentTo(100_000))
	g.Expect(values[0]).To(BeEquivalentTo(100_000), "the values keep their order")
}

func TestACurveEndsWithTheLastJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var at []float64
	for i := range 1000 {
		at = append(at, float64(1000-i))
	}
	curve := results.Curve(at)
	g.Expect(curve).To(HaveLen(results.CurvePoints))
	g.Expect(curve[0]).To(BeEquivalentTo(20))
	g.Expect(curve[results.CurvePoints-1]).To(BeEquivalentTo(1000))
	g.Expect(results.Curve([]float64{3, 2})).To(HaveLen(results.CurvePoints/2+1), "the first Job is half of them")
}

func TestNumbersHaveFourDigits(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(results.Round(1234.56)).To(BeEquivalentTo(1235))
	g.Expect(results.Round(0.0012346)).To(BeEquivalentTo(0.001235))
	g.Expect(results.Ratio(math.NaN())).To(BeNil())
	g.Expect(results.Ratio(math.Inf(1))).To(BeNil())
	g.Expect(*results.Ratio(1.23456)).To(BeEquivalentTo(1.235))
}

// Whoever reads the documents finds each field explained.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/contributing/benchmarks.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(page), "## Results as JSON")
	g.Expect(found).To(BeTrue())
	for _, of := range []any{
		results.Run{}, results.Measurement{}, results.Figure{}, results.Samples{}, results.Distribution{}, results.Curves{},
	} {
		kind := reflect.TypeOf(of)
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			g.Expect(section).To(ContainSubstring("`"+name+"`"), kind.Name())
		}
	}
}
