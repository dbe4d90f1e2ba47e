// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestBackoffGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var backoff Backoff
		for _, milliseconds := range []int{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000, 10000} {
			longest := time.Duration(milliseconds) * time.Millisecond
			for range 100 {
				g.Expect(backoff.Delay()).To(And(BeNumerically(">=", longest/2), BeNumerically("<=", longest)))
			}
			backoff.Begin()
			time.Sleep(time.Second)
		}
		backoff.Reset()
		g.Expect(backoff.Delay()).To(BeNumerically("<=", 100*time.Millisecond))
	})
}

func TestBackoffKeepsAttemptsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var backoff Backoff
		backoff.Begin()
		backoff.Reset()
		g.Expect(backoff.Delay()).To(Equal(250 * time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		g.Expect(backoff.Delay()).To(Equal(150 * time.Millisecond))
	})
}
