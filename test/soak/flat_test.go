// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

// baseline is what an operator has after the warm-up.
var baseline = vitals{goroutines: 150, heapBytes: 20 << 20, openFiles: 40, series: 1500}

func TestVitalsThatMoveALittleAreFlat(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(grown(baseline, baseline)).To(Succeed())
	g.Expect(grown(baseline, vitals{goroutines: 165, heapBytes: 26 << 20, openFiles: 50, series: 1515})).To(Succeed())
	g.Expect(grown(baseline, vitals{})).To(Succeed(), "less is no leak")
}

func TestEveryLeakIsTold(t *testing.T) {
	t.Parallel()
	for what, leak := range map[string]func(*vitals){
		"goroutines":        func(v *vitals) { v.goroutines += roomGoroutines + 1 },
		"bytes of heap":     func(v *vitals) { v.heapBytes = 26<<20 + 1 },
		"open files":        func(v *vitals) { v.openFiles += roomFiles + 1 },
		"series of metrics": func(v *vitals) { v.series += roomSeries + 1 },
	} {
		g := NewWithT(t)
		after := baseline
		leak(&after)
		g.Expect(grown(baseline, after)).To(MatchError(MatchRegexp(`^the operator leaks: it has \d+ %s at rest.*$`, what)))
	}
}

func TestTheLeastIsTakenOfEach(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(vitals{1, 20, 3, 40}.least(vitals{10, 2, 30, 4})).To(Equal(vitals{1, 2, 3, 4}))
}
