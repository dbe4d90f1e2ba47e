// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"math"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Whoever may create Jobs can forge one with an ordinal, the name that follows from it, and a floor. The search for free ordinals must not
// overflow: it would go through all numbers there are, with the lock of all ScaledJobs held.
func TestForgedLargestOrdinalsDoNotStopTheOperator(t *testing.T) {
	t.Parallel()
	for _, ordinal := range []int64{math.MaxInt64 - 1, math.MaxInt64 - 2} {
		t.Run(strconv.FormatInt(ordinal, 10), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			census := censusOf(ordinal)
			census.Active[0].Annotations[scaledjobv1.AnnotationOrdinalFloor] = strconv.FormatInt(ordinal-1, 10)
			gate := newGate()
			gate.Saw(owner1, census)
			claimed := make(chan []int64)
			go func() { claimed <- free(gate, 5) }()
			g.Eventually(claimed).WithTimeout(5 * time.Second).Should(Receive(HaveLen(5)))
		})
	}
}

// A forged ordinal must not make those that are in use look free, pass after pass.
func TestForgedLargestOrdinalDoesNotFreeUsedOnes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := newGate()
	census := censusOf(1, 2, math.MaxInt64)
	census.Active[2].Annotations[scaledjobv1.AnnotationOrdinalFloor] = strconv.FormatInt(math.MaxInt64-1, 10)
	for range 3 {
		gate.Saw(owner1, census)
		claimed := free(gate, 2)
		for _, ordinal := range claimed {
			gate.skip(owner1, ordinal) // as where the name is taken
		}
		gate.Saw(owner1, census)
		g.Expect(free(gate, 2)).NotTo(ContainElements(claimed), "they were found taken")
	}
}
