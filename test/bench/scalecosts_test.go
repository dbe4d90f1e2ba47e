// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestNumbersOfScaledJobs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	chosen := numbers{1, 100}
	g.Expect(chosen.String()).To(Equal("1,100"))
	g.Expect(chosen.Set("7,1000")).To(Succeed())
	g.Expect(chosen).To(Equal(numbers{7, 1000}))
	for _, wrong := range []string{"", "0", "-1", "1,,2", "many"} {
		g.Expect(chosen.Set(wrong)).NotTo(Succeed(), wrong)
	}
}

func TestCreatingIsNoPartOfTheTimeUntilReady(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := scaleCosts{count: 100, creating: 4, writing: 5, ready: 14, latency: latencies{floor: []float64{2}, ours: []float64{3}}}
	g.Expect(rowOf(g, c.compare(&c), "beyond the creates").figures).To(Equal(figures{reference: 5, ours: 10, ratio: 2}))
}

func TestOnlyManyScaledJobsHaveLimits(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	one := scaleCosts{count: 1, latency: latencies{floor: []float64{2}, ours: []float64{3}}}
	many := scaleCosts{count: manyScaledJobs, resident: 181e6, cores: 0.08, latency: latencies{floor: []float64{2}, ours: []float64{6}}}
	_, verdict := rowOf(g, one.compare(&one), "memory of the process").target()
	g.Expect(verdict).To(BeEmpty())
	for row, expected := range map[string]string{
		"memory of the process": "missed", "CPU at rest": "met", "p50, times that with 1": "missed",
	} {
		_, verdict := rowOf(g, many.compare(&one), row).target()
		g.Expect(verdict).To(Equal(expected), row)
	}
}

// rowOf is the only comparison with this in its work.
func rowOf(g *WithT, all []comparison, part string) comparison {
	var found []comparison
	for _, c := range all {
		if strings.Contains(c.work, part) {
			found = append(found, c)
		}
	}
	g.Expect(found).To(HaveLen(1), part)
	return found[0]
}
