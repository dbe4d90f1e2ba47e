// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

func TestVersionOfTheServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(serverVersion("# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n")).To(Equal("Redis 7.0.15"))
	g.Expect(serverVersion("redis_version:7.2.4\r\nvalkey_version:8.1.3\r\n")).To(Equal("Valkey 8.1.3"))
	g.Expect(serverVersion("os:Linux\r\n")).To(Equal("Redis unknown"))
}

func TestFirstCPUIsTheModel(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(valueOf("processor\t: 0\nmodel name\t: A CPU @ 2.00GHz\n\nmodel name\t: Another\n", "model name")).To(Equal("A CPU @ 2.00GHz"))
}

func TestFiguresForTheDocument(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ratio := 1.25
	found := measured("latency", 90*time.Second, []comparison{
		{work: "p50", unit: "ms", figures: figures{4, 5, ratio}, atMost: 1.5, samples: latencies{floor: []float64{5, 3}, ours: []float64{5}}},
		within("cheap", "cores", 0.1, 0.125),
		alone("commands", "/s", 1234.56),
		{work: "longer than nothing", unit: "s", figures: figures{0, 5, math.Inf(1)}, beside: "another thing"},
	})
	g.Expect(found).To(Equal(results.Measurement{Name: "latency", Seconds: 90, Figures: []results.Figure{
		{Work: "p50", Unit: "ms", Beside: results.Loop, Reference: 4, Ours: 5, Ratio: &ratio, AtMost: 1.5, Samples: &results.Samples{
			Reference: results.Distribution{Count: 2, Values: []float64{3, 5}}, Ours: results.Distribution{Count: 1, Values: []float64{5}},
		}},
		{Work: "cheap", Unit: "cores", Beside: results.Limit, Reference: 0.1, Ours: 0.125, Ratio: &ratio, AtMost: 1},
		{Work: "commands", Unit: "/s", Ours: 1235},
		{Work: "longer than nothing", Unit: "s", Ours: 5, Beside: "another thing"},
	}}))
}

// Whatever can be measured has a table on the page, which make bench-report fills.
func TestEveryMeasurementHasATable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/contributing/benchmarks.md")
	g.Expect(err).NotTo(HaveOccurred())
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
