// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// However the events of a flood are spread, no more of them pass in any time than the burst and what the rate gives.
func TestABucketPassesNoMoreThanItsAllowance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		of := Allowance{Rate: rapid.Float64Range(1, 1000).Draw(t, "rate"), Burst: rapid.Float64Range(1, 1000).Draw(t, "burst")}
		begun := time.Now()
		now, passed := begun, 0
		var bucket Bucket
		for range 1000 {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pause")) * time.Millisecond)
			if bucket.Spend(1, of, now) >= 0 {
				passed++
			}
		}
		most := of.Burst + of.Rate*now.Sub(begun).Seconds()
		NewWithT(t).Expect(float64(passed)).To(BeNumerically("<=", most+1e-3))
	})
}

func TestABudgetRecoversAfterAFlood(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	b := NewBudgets(Allowance{Rate: 10, Burst: 100})
	g.Expect(b.Spend("a", 100, now)).To(BeZero())
	g.Expect(b.Spend("a", 1, now)).To(BeEquivalentTo(-1))
	g.Expect(b.Spend("b", 1, now)).To(BeEquivalentTo(99), "others pay for themselves")
	g.Expect(b.Spend("a", 1_000_000, now)).To(BeEquivalentTo(-100), "there is no more debt than a burst")
	g.Expect(b.Spend("a", 0, now.Add(10*time.Second))).To(BeZero())
	g.Expect(b.Spend("a", 0, now.Add(time.Hour))).To(BeEquivalentTo(100))
}

func TestWhatNobodyAskedForIsPaidByAll(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	b := NewBudgets(Allowance{Rate: 10, Burst: 100})
	b.Spend("a", 1000, now)
	g.Expect(b.Exhausted([]string{"a"}, 1, now)).To(BeTrue())
	g.Expect(b.Exhausted([]string{"a", "b"}, 1, now)).To(BeFalse(), "b can still pay")
	g.Expect(b.Spend("b", 0, now)).To(BeEquivalentTo(99))
	g.Expect(b.Exhausted(nil, 1, now)).To(BeFalse())
}

func TestBudgetsOfThoseWhoAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	b := NewBudgets(Allowance{Rate: 10, Burst: 100})
	for i := range 10_000 {
		now = now.Add(time.Second)
		b.Spend(strconv.Itoa(i), 10, now)
	}
	g.Expect(len(b.buckets)).To(BeNumerically("<=", 50))
}
