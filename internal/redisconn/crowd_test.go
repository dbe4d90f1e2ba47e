// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/tenancy"
)

// Calls that begin at the same moment are none of them late yet. Slow servers must not hold all
// workers again whenever those that were late have ended.
func TestSlowServersHoldUpManyCallsOnlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pool := start(t, refuse)
		var held atomic.Int32
		slow := func(context.Context, redis.Cmdable) error {
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
		g.Expect(held.Load()).To(BeEquivalentTo(32), "nothing is known yet")
		for range 5 {
			time.Sleep(time.Second)
			crowd()
			g.Expect(held.Load()).To(BeEquivalentTo(lateCalls))
			g.Expect(pool.ConnFor("other", somewhere, 0).Do(t.Context(), answer(nil))).To(Succeed())
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		g.Expect(pool.calls).To(Equal(tenancy.NewCalls()), "it is forgotten")
	})
}
