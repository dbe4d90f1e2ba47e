// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// All servers of one tenant are slow, but not slow enough to be marked down. Only a few workers may wait for them at
// the same time.
func TestSlowServersOfOneTenantHoldUpFewCalls(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		var mu sync.Mutex
		running, refused := map[string]int{}, 0
		slow := func(context.Context, Client) error {
			time.Sleep(900 * time.Millisecond)
			return nil
		}
		var calls sync.WaitGroup
		call := func(tenant string, i int) {
			calls.Go(func() {
				mu.Lock()
				running[tenant]++
				mu.Unlock()
				err := pool.ConnFor(tenant, numbered(i), 0).Do(t.Context(), slow)
				mu.Lock()
				defer mu.Unlock()
				running[tenant]--
				if err != nil {
					g.Expect(failure.Classify(err).Busy()).To(BeTrue())
					refused++
				}
			})
		}
		for i := range lateCalls {
			call("attacker", i)
		}
		time.Sleep(200 * time.Millisecond)
		for i := range 64 {
			call("attacker", 100+i)
			call("", 200+i)
		}
		synctest.Wait()
		mu.Lock()
		g.Expect(refused).To(Equal(64), "all calls but the first, late ones")
		g.Expect(running).To(And(HaveKeyWithValue("attacker", lateCalls), HaveKeyWithValue("", 64)), "calls without a tenant have no limit")
		mu.Unlock()
		g.Expect(pool.ConnFor("other", somewhere, 0).Do(t.Context(), answer(nil))).To(Succeed())

		calls.Wait()
		g.Expect(pool.ConnFor("attacker", numbered(1), 0).Do(t.Context(), answer(nil))).To(Succeed(), "the tenant may call again")
	})
}

// Calls that begin at the same moment are not late yet. Slow servers must not block all workers again each time the
// late calls have ended.
func TestSlowServersHoldUpManyCallsOnlyOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		var held atomic.Int32
		slow := func(context.Context, Client) error {
			held.Add(1)
			defer held.Add(-1)
			time.Sleep(900 * time.Millisecond)
			return nil
		}
		crowd := func() {
			for i := range 32 {
				go func() { _ = pool.ConnFor("attacker", numbered(i), 0).Do(t.Context(), slow) }()
			}
			synctest.Wait()
		}
		crowd()
		g.Expect(held.Load()).To(BeEquivalentTo(32), "no call is late yet")
		for range 5 {
			time.Sleep(time.Second)
			crowd()
			g.Expect(held.Load()).To(BeEquivalentTo(lateCalls))
			g.Expect(pool.ConnFor("other", somewhere, 0).Do(t.Context(), answer(nil))).To(Succeed())
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		g.Expect(pool.calls).To(Equal(newCallQuota()), "the tenant is forgotten")
	})
}

func TestTenantsThatDoNotCallAreForgotten(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		calls := newCallQuota()
		g.Expect(calls.begin("team")).To(BeTrue())
		calls.forgetIdle()
		g.Expect(calls).NotTo(Equal(newCallQuota()), "the tenant has a call")
		calls.countLate("team", lateCalls)
		calls.countLate("team", -lateCalls)
		calls.end("team")
		calls.forgetIdle()
		g.Expect(calls).NotTo(Equal(newCallQuota()), "the limit is still in effect")
		time.Sleep(limitedFor)
		calls.forgetIdle()
		g.Expect(calls).To(Equal(newCallQuota()))
	})
}

// A wait for something other than a call occupies a worker too.
func TestWaitsCountAsCalls(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := start(t, refuse)
		answered := make(chan struct{})
		var waits sync.WaitGroup
		for range lateCalls {
			waits.Go(func() { g.Expect(pool.Wait("attacker", func() { <-answered })).To(Succeed()) })
		}
		time.Sleep(pool.timing.lateAfter + time.Millisecond)
		synctest.Wait()
		g.Expect(failure.Classify(pool.Wait("attacker", func() { t.Error("it waits") })).Busy()).To(BeTrue())
		g.Expect(pool.Wait("other", func() { /* at once */ })).To(Succeed())
		close(answered)
		waits.Wait()
		time.Sleep(limitedFor)
		g.Expect(pool.Wait("attacker", func() { /* at once */ })).To(Succeed())
	})
}
