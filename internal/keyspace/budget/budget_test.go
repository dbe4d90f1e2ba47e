// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// However the events of a flood are spread, no more of them pass in any time than the burst and what the rate gives.
func TestANamespaceTakesNoMoreThanItsBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		begun := time.Now()
		now, passed := begun, 0
		var namespaces Namespaces
		for range rapid.IntRange(1, 300).Draw(t, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "pause")) * time.Millisecond)
			for range rapid.IntRange(1, 500).Draw(t, "events") {
				if namespaces.Charge("a", now) {
					passed++
				}
			}
		}
		most := NamespaceBurst + NamespaceRate*now.Sub(begun).Seconds()
		NewWithT(t).Expect(float64(passed)).To(BeNumerically("<=", most+1e-3))
	})
}

func TestANamespaceRecoversAfterAFlood(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Now()
	var namespaces Namespaces
	for range NamespaceBurst {
		g.Expect(namespaces.Charge("a", now)).To(BeTrue())
	}
	g.Expect(namespaces.Charge("a", now)).To(BeFalse())
	g.Expect(namespaces.Charge("b", now)).To(BeTrue(), "others pay for themselves")
	for range 5 * NamespaceBurst {
		namespaces.Charge("a", now)
	}
	paidBack := NamespaceBurst / NamespaceRate * time.Second
	g.Expect(namespaces.Charge("a", now.Add(paidBack))).To(BeFalse(), "the flood counts")
	g.Expect(namespaces.Charge("a", now.Add(paidBack+time.Second))).To(BeTrue(), "there is no more debt than a burst")
}

func TestNamespacesThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var namespaces Namespaces
	for i := range 10_000 {
		now = now.Add(time.Second)
		namespaces.Charge(strconv.Itoa(i), now)
	}
	NewWithT(t).Expect(len(namespaces.limiters)).To(BeNumerically("<=", 50))
}
