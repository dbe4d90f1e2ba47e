// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestSummarySaysWhatCameOfEachScene(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	summary := Summary([]Result{
		{
			Name: "burst", Messages: 535, Due: 79, Created: 80, Took: 5200 * time.Millisecond,
			Reactions:    []time.Duration{3 * time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond},
			FailedChecks: []string{"79 Jobs due, 80 created"},
		},
	})
	g.Expect(summary).To(MatchRegexp(`burst\s+535\s+79\s+80\s+4.0 ms\s+6.0 ms\s+5.2 s\n`))
	g.Expect(summary).To(ContainSubstring("FAILED: 79 Jobs due, 80 created\n"))
}

func TestSummarySaysWhyReactionsAreSlow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const why = "the operator polls the queues"
	g.Expect(Summary([]Result{{Name: "burst"}})).NotTo(ContainSubstring(why))
	g.Expect(Summary([]Result{{Name: "burst", Polled: true}, {Name: "trickle", Polled: true}})).To(HaveSuffix(why + "."))
}
