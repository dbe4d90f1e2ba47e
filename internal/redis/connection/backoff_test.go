// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestBackoffGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var backoff Backoff
	for _, milliseconds := range []int{250, 250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000} {
		most := time.Duration(milliseconds) * time.Millisecond
		for range 100 {
			g.Expect(backoff.Delay()).To(And(BeNumerically(">=", max(most/2, firstDelay)), BeNumerically("<=", most)))
		}
		backoff.Begin()
	}
	for range 1000 {
		backoff.Begin()
	}
	g.Expect(backoff.Delay()).To(BeNumerically("<=", longestDelay))
	backoff.Reset()
	g.Expect(backoff.Delay()).To(Equal(firstDelay))
}
