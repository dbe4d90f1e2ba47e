// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// asking is what servers of a deployment are asked.
type asking struct{ under, most, ended atomic.Int64 }

// ask has so many pollers ask all the time until ctx is done, each question taking so long.
func (a *asking) ask(ctx context.Context, running *sync.WaitGroup, f *follower, pollers int, lasting time.Duration, received int64) {
	for range pollers {
		running.Go(func() {
			for {
				end, err := f.begin(ctx)
				if err != nil {
					return
				}
				now := a.under.Add(1)
				for most := a.most.Load(); now > most && !a.most.CompareAndSwap(most, now); most = a.most.Load() {
				}
				time.Sleep(lasting)
				a.under.Add(-1)
				a.ended.Add(1)
				end(costOf(received, 0))
			}
		})
	}
}

// follower returns a follower that these tenants use.
func (s *shares) follower(tenants ...string) *follower {
	f := newIdleFollower()
	f.shares = s
	for _, tenant := range tenants {
		s.join(f, tenant)
	}
	return f
}

// One tenant has very many servers that are silent, or send very large replies. Another one, and a deployment that both use,
// are asked as usual.
func TestServersOfATenantAreAskedFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		all := newShares()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var silent, alone, common asking
		silent.ask(ctx, &running, all.follower("hostile"), 1000, time.Second, 8<<20)
		time.Sleep(time.Second)
		alone.ask(ctx, &running, all.follower("team"), 1, time.Millisecond, 0)
		common.ask(ctx, &running, all.follower("hostile", "team"), 3, time.Millisecond, 0)
		const lasting = 10 * time.Second
		time.Sleep(lasting)
		g.Expect(silent.most.Load()).To(BeEquivalentTo(placesEach))
		const usual = lasting / (time.Millisecond + questionCost)
		g.Expect(alone.ended.Load()).To(BeNumerically(">=", usual/2))
		g.Expect(common.ended.Load()).To(BeNumerically(">=", 3*usual/2))
		stop()
		running.Wait()
	})
}

// However fast servers answer, and however large the replies are, what they make the operator read is bounded.
func TestRepliesToATenantAreBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 100 << 10, 4 << 20, 12 << 20, 24 << 20} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			var fast asking
			fast.ask(ctx, &running, newShares().follower("hostile"), 1000, 0, size)
			const lasting = time.Minute
			time.Sleep(lasting)
			ended := fast.ended.Load()
			g.Expect(ended).To(BeNumerically("<=", placesEach*(1+lasting/questionCost)))
			g.Expect(ended * size).To(BeNumerically("<=", placesEach*(size+int64(lasting/byteCost))))
			g.Expect(ended).To(BeNumerically(">=", placesEach*(lasting/(costOf(size, 0)+time.Millisecond))))
			stop()
			running.Wait()
		})
	}
}

// Many deployments of a tenant together have no more servers that are asked than it may have.
func TestServersOfATenantThatAreAskedAreBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := newShares()
	var leaves []func()
	admitted := func(f *follower) bool {
		leave, admitted := all.admit(f)
		if admitted {
			leaves = append(leaves, leave)
		}
		return admitted
	}
	crowded, common := all.follower("hostile"), all.follower("hostile", "team")
	for range mostAskedEach {
		g.Expect(admitted(crowded)).To(BeTrue())
	}
	g.Expect(admitted(crowded)).To(BeFalse())
	g.Expect(admitted(common)).To(BeTrue(), "on behalf of the other tenant")
	g.Expect(all.leave(crowded, "hostile")).To(BeTrue())
	g.Expect(all.leave(common, "hostile")).To(BeFalse())
	back := all.follower("hostile")
	g.Expect(admitted(back)).To(BeFalse(), "who leaves and comes again")
	g.Expect(all.of["team"].asked).To(Equal(1))

	late := all.follower("other")
	all.join(late, "team")
	for range 10 {
		g.Expect(admitted(late)).To(BeTrue())
	}
	g.Expect(all.leave(late, "other")).To(BeFalse())
	g.Expect(all.of).NotTo(HaveKey("other"), "those who still use it have it asked")
	g.Expect(all.of["team"].asked).To(Equal(1 + 10))
	for _, leave := range leaves {
		leave()
	}
	g.Expect(admitted(back)).To(BeTrue())
}

// A deployment whose servers may not be asked says so, and is asked when there is room.
func TestADeploymentThatMayNotBeAskedSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		f := newShares().follower("team")
		for range mostAskedEach {
			_, admitted := f.shares.admit(f)
			g.Expect(admitted).To(BeTrue())
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		time.Sleep(2 * askInterval)
		_, err := f.locate("emails")
		g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonTooManyServers))
		stop()
		running.Wait()
	})
}

// Who leaves and comes again has the same places.
func TestATenantThatComesAgainHasNoFurtherPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		all := newShares()
		var ends []func(time.Duration)
		begin := func(f *follower) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			end, err := all.begin(ctx, f)
			if err == nil {
				ends = append(ends, end)
			}
			return err == nil
		}
		for range placesEach {
			f := all.follower("team")
			g.Expect(begin(f)).To(BeTrue())
			g.Expect(all.leave(f, "team")).To(BeTrue())
		}
		f := all.follower("team", "team")
		g.Expect(begin(f)).To(BeFalse())
		g.Expect(begin(all.follower("other"))).To(BeTrue())
		for _, end := range ends {
			end(questionCost)
		}
		g.Expect(begin(f)).To(BeTrue(), "when their time is over")
		ends[len(ends)-1](0)
		synctest.Wait()
		time.Sleep(questionCost)
		synctest.Wait()
		g.Expect(all.leave(f, "team")).To(BeFalse())
		g.Expect(all.leave(f, "team")).To(BeTrue())
		g.Expect(all.of).NotTo(HaveKey("team"), "nothing is kept of who has left")
		_, err := all.begin(t.Context(), f)
		g.Expect(err).To(MatchError(errUnused))
	})
}
