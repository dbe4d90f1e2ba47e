// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/hack/demo/scene"
)

func TestSummarySaysWhatCameOfEachScene(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	summary := Summary([]scene.Result{
		{
			Name: "burst", Messages: 535, Due: 79, Created: 80, Took: 5200 * time.Millisecond,
			Reactions:    []time.Duration{3 * time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond},
			FailedChecks: []string{"79 Jobs due, 80 created"},
		},
		{Name: "redis", LeftOut: "it is not ours"},
	})
	g.Expect(summary).To(MatchRegexp(`burst\s+535\s+79\s+80\s+4.0 ms\s+6.0 ms\s+5.2 s\n`))
	g.Expect(summary).To(ContainSubstring("redis    left out: it is not ours\n"))
	g.Expect(summary).To(ContainSubstring("NOT KEPT: 79 Jobs due, 80 created\n"))
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(percentile([]time.Duration{7}, 50)).To(BeEquivalentTo(7))
	g.Expect(percentile([]time.Duration{1, 2}, 50)).To(BeEquivalentTo(1))
	g.Expect(percentile([]time.Duration{1, 2, 9}, 50)).To(BeEquivalentTo(2))
	g.Expect(percentile([]time.Duration{1, 2, 3, 9}, 99)).To(BeEquivalentTo(9))
	g.Expect(percentile([]time.Duration{1, 2, 3, 9}, 0)).To(BeEquivalentTo(1))
}
