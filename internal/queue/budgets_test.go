// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

func TestCountingTakesATenthOfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var b budgets
		one, other := auth.Endpoint{Address: "one:6379"}, auth.Endpoint{Address: "other:6379"}
		g.Expect(b.left(one)).To(Equal(countingBurst))
		b.spend(one, 200*time.Millisecond)
		g.Expect(b.left(one)).To(Equal(300 * time.Millisecond))
		b.spend(one, time.Hour)
		g.Expect(b.left(one)).To(BeZero())
		g.Expect(b.left(other)).To(Equal(countingBurst), "each server has a budget of its own")

		time.Sleep(2 * time.Second)
		g.Expect(b.left(one)).To(BeZero(), "the time that was overspent is paid back first")
		time.Sleep(time.Second)
		g.Expect(b.left(one)).To(BeNumerically("~", 100*time.Millisecond, 5*time.Millisecond))
		time.Sleep(time.Minute)
		g.Expect(b.left(one)).To(Equal(countingBurst))

		b.left(auth.Endpoint{Address: "third:6379"})
		g.Expect(b.limiters).To(HaveLen(1), "unused limiters are removed")
	})
}
