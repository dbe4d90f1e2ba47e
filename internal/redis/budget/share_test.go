// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// However many spend at the same time, they take a tenth of the time, and what was saved up.
func TestATenthOfTheTimeIsSpent(t *testing.T) {
	t.Parallel()
	for _, each := range []time.Duration{time.Millisecond, 40 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const users, measured = 4, time.Minute
			g := NewWithT(t)
			share := New()
			ctx, stop := context.WithTimeout(t.Context(), measured)
			defer stop()
			var mu sync.Mutex
			var spent time.Duration
			var running sync.WaitGroup
			for range users {
				running.Go(func() {
					for share.Wait(ctx) == nil && ctx.Err() == nil {
						time.Sleep(each)
						share.Charge(each)
						mu.Lock()
						spent += each
						mu.Unlock()
					}
				})
			}
			running.Wait()
			g.Expect(spent).To(BeNumerically("<=", measured/10+burst+mostDebt+users*each))
			g.Expect(spent).To(BeNumerically(">=", measured/10-users*each))
		})
	}
}

func TestADebtIsBounded(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		share := New()
		g.Expect(share.Full()).To(BeTrue())
		for range 10 {
			share.Charge(time.Hour)
		}
		g.Expect(share.Left()).To(BeNumerically("~", -mostDebt, time.Microsecond))
		began := time.Now()
		g.Expect(share.Wait(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(BeNumerically("~", 10*mostDebt, time.Millisecond))
		g.Expect(share.Full()).To(BeFalse())
		time.Sleep(10*burst + time.Millisecond)
		g.Expect(share.Full()).To(BeTrue())
	})
}

func TestNobodyWaitsWithoutADebt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		share := New()
		share.Charge(burst)
		began := time.Now()
		g.Expect(share.Wait(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(BeZero())
		share.Charge(time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.Expect(share.Wait(ctx)).To(MatchError(context.Canceled))
	})
}
