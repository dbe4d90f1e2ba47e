// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// load is what servers of a deployment are asked.
type load struct{ underWay, most, ended atomic.Int64 }

// run has so many pollers ask all the time until ctx is done, each request taking and costing so long.
func (l *load) run(ctx context.Context, running *sync.WaitGroup, f *watcher, pollers int, lasting, cost time.Duration) {
	for range pollers {
		running.Go(func() {
			for ctx.Err() == nil {
				by, err := f.shares.begin(ctx, f)
				if err != nil {
					return
				}
				now := l.underWay.Add(1)
				for most := l.most.Load(); now > most && !l.most.CompareAndSwap(most, now); most = l.most.Load() {
				}
				time.Sleep(lasting)
				l.underWay.Add(-1)
				l.ended.Add(1)
				by.time.Charge(cost)
				by.end()
			}
		})
	}
}

// follower returns a follower that these tenants use.
func (s *shares) watcher(tenants ...string) *watcher {
	f := newIdleWatcher(auth.ModeCluster, "")
	f.shares = s
	for _, tenant := range tenants {
		s.join(f, tenant)
	}
	return f
}

// One tenant has very many servers that are silent, or whose replies take very long to parse. Another one, and a
// deployment that both use, are asked as usual.
func TestServersOfATenantAreAskedFewAtATime(t *testing.T) {
	t.Parallel()
	for name, cost := range map[string]time.Duration{"silent": requestCost, "costly": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				all := newShares()
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				var hostile, alone, common load
				hostile.run(ctx, &running, all.watcher("hostile"), 1000, time.Second, cost)
				time.Sleep(10 * time.Second)
				const lasting, usual = 10 * time.Second, 100 * time.Millisecond
				alone.run(ctx, &running, all.watcher("team"), 1, usual, requestCost)
				common.run(ctx, &running, all.watcher("hostile", "team"), 3, usual, requestCost)
				time.Sleep(lasting + time.Millisecond)
				g.Expect(hostile.most.Load()).To(BeEquivalentTo(requestsEach))
				g.Expect(alone.ended.Load()).To(BeEquivalentTo(lasting / usual))
				g.Expect(common.ended.Load()).To(BeEquivalentTo(3 * lasting / usual))
				stop()
				running.Wait()
			})
		})
	}
}

// A deployment that several tenants use waits for whichever of them has room first, and takes nothing from the others.
func TestTheFirstTenantWithRoomIsTaken(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		all := newShares()
		var begun []*share
		for _, tenant := range []string{"hostile", "team"} {
			for range requestsEach {
				by := must.Get(all.begin(t.Context(), all.watcher(tenant)))(g)
				begun = append(begun, by)
			}
		}
		common := all.watcher("hostile", "team")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Expect(all.begin(ctx, common)).Error().To(MatchError(context.DeadlineExceeded))

		time.AfterFunc(time.Second, all.of["team"].end)
		by := must.Get(all.begin(t.Context(), common))(g)
		g.Expect(by).To(BeIdenticalTo(all.of["team"]))
		for _, each := range begun {
			each.end()
		}
		synctest.Wait()
		for tenant, each := range all.of {
			g.Expect(each.requests.TryAcquire(requestsEach)).To(BeTrue(), tenant)
		}
	})
}

// However fast servers answer, and however large the replies are, the time that they take is bounded.
func TestRepliesToATenantAreBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 100 << 10, resp.MaxReplyBytes, 3 * resp.MaxReplyBytes} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, g Gomega) {
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				var fast load
				cost := costOf([][]byte{make([]byte, size)}, nil)
				fast.run(ctx, &running, newShares().watcher("hostile"), 1000, 0, cost)
				const lasting, savedUp = time.Minute, time.Second
				const rounds = 30 // if all wait for the longest time after each
				time.Sleep(lasting)
				spent := time.Duration(fast.ended.Load()) * cost
				atOnce := requestsEach * cost
				g.Expect(spent).To(BeNumerically("<=", savedUp+atOnce+max(lasting/10, rounds*atOnce)))
				g.Expect(spent).To(BeNumerically(">=", lasting/10-atOnce))
				stop()
				running.Wait()
			})
		})
	}
}

// A reply that is too large was read up to its limit.
func TestAReplyThatIsTooLargeCostsAsMuchAsTheLargest(t *testing.T) {
	t.Parallel()
	largest := costOf([][]byte{make([]byte, resp.MaxReplyBytes)}, nil)
	g := NewWithT(t)
	g.Expect(costOf(nil, failure.Classify(fmt.Errorf("reading: %w", resp.ErrTooLarge)))).To(Equal(largest))
	g.Expect(costOf(nil, context.DeadlineExceeded)).To(Equal(requestCost))
}

// Many deployments of a tenant together have no more servers that are polled than it may have.
func TestServersOfATenantThatAreAskedAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := newShares()
	crowded, common := all.watcher("hostile"), all.watcher("hostile", "team")
	g.Expect(all.admit(crowded, mostPolledEach-1)).To(Equal(mostPolledEach - 1))
	g.Expect(all.admit(crowded, mostPolledEach+1)).To(Equal(mostPolledEach))
	g.Expect(all.admit(common, 10)).To(Equal(10), "the other tenant may")
	late := all.watcher("hostile")
	g.Expect(all.admit(late, 10)).To(BeZero())

	g.Expect(all.leave(common, "team")).To(BeFalse())
	g.Expect(all.admit(common, 10)).To(BeZero(), "nobody who uses it may")
	g.Expect(all.admit(crowded, 500)).To(Equal(500))
	g.Expect(all.admit(late, 20)).To(Equal(mostPolledEach - 500))
	g.Expect(all.leave(crowded, "hostile")).To(BeTrue())
	g.Expect(all.admit(crowded, 10)).To(BeZero(), "nobody uses it")
	g.Expect(all.admit(late, 20)).To(Equal(20))
	all.join(late, "hostile")
	g.Expect(all.of["hostile"].polled).To(Equal(20), "each server counts once")
}

// A deployment whose servers may not be polled says so.
func TestADeploymentThatMayNotBeAskedSaysSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		all := newShares()
		g.Expect(all.admit(all.watcher("team"), mostPolledEach)).To(Equal(mostPolledEach))
		f := all.watcher("team")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		time.Sleep(2 * pollInterval)
		_, err := f.route("emails")
		g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonTooManyServers))
		stop()
		running.Wait()
	})
}

// Who leaves and comes again has the same share.
func TestATenantThatComesAgainHasTheSameShare(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		all := newShares()
		var begun []*share
		begin := func(f *watcher) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			by, err := all.begin(ctx, f)
			if err == nil {
				begun = append(begun, by)
			}
			return err
		}
		for range requestsEach {
			f := all.watcher("team")
			g.Expect(begin(f)).To(Succeed())
			g.Expect(all.leave(f, "team")).To(BeTrue())
		}
		f := all.watcher("team")
		g.Expect(begin(f)).NotTo(Succeed())
		g.Expect(begin(all.watcher("other"))).To(Succeed())
		for _, each := range begun {
			each.end()
		}
		g.Expect(begin(f)).To(Succeed())
		begun[len(begun)-1].time.Charge(time.Second)
		begun[len(begun)-1].end()
		g.Expect(all.leave(f, "team")).To(BeTrue())
		g.Expect(all.begin(t.Context(), f)).Error().To(MatchError(errUnused))
		all.watcher("another")
		g.Expect(all.of).To(HaveKey("team"), "what was spent is remembered")
		time.Sleep(time.Minute)
		all.watcher("another")
		g.Expect(all.of).NotTo(HaveKey("team"), "nothing is kept of who has left")
	})
}
