// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	exact := result{messages: 30, due: 3, created: 3}
	for name, c := range map[string]struct {
		outcome outcome
		failure string
	}{
		"exact":            {outcome{results: []result{exact}, peak: 3, limit: 3}, ""},
		"a Job too many":   {outcome{results: []result{exact, {messages: 1, due: 1, created: 2}}, limit: 3}, "1 message led to 2 Jobs; the number due is 1"},
		"a Job too few":    {outcome{results: []result{{messages: 30, due: 3, created: 2}, exact}, limit: 3}, "30 messages led to 2 Jobs; the number due is 3"},
		"too many at once": {outcome{results: []result{exact}, peak: 4, limit: 3}, "4 Jobs were active at a time, but at most 3 may be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			if c.failure == "" {
				g.Expect(c.outcome.check()).To(Succeed())
				return
			}
			g.Expect(c.outcome.check()).To(MatchError(c.failure))
		})
	}
}

func TestReactionsAreThoseOfSingleMessages(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	o := outcome{results: []result{{messages: 1, first: 3}, {messages: 30, first: 9}, {messages: 1, first: 2}}}
	g.Expect(o.reactions()).To(Equal([]time.Duration{2, 3}))
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
