// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// slow is a deployment whose answers take so long to consider.
type slow struct {
	cluster

	addresses  []string
	lasting    time.Duration
	considered atomic.Int64
}

func (*slow) belongs(answer, map[string]bool) bool { return true }

func (s *slow) decide([]answer, int, uint64) *view {
	time.Sleep(s.lasting)
	s.considered.Add(1)
	return &view{err: masterDown()}
}

func (s *slow) wanted(map[string]answer, []auth.Endpoint) []string { return s.addresses }

func newIdleFollower() *follower {
	return newFollower(connection.NewPool(connection.Options{}), newShares(), auth.Endpoint{Mode: auth.ModeCluster}, make(chan struct{}, 1), logr.Discard())
}

// Servers of a tenant that say something else all the time take no more than a part of one core, however many they are.
func TestConclusionsOfATenantAreSpaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const deployments, lasting, measured = 16, 5 * time.Millisecond, 10 * time.Second
		g := NewWithT(t)
		shares := newShares()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var all []*slow
		for range deployments {
			of, f := &slow{lasting: lasting, addresses: []string{"node:1"}}, shares.follower("hostile")
			f.deployment = of
			f.pollers["node:1"] = &poller{stop: func() {}}
			running.Go(func() { f.run(ctx) })
			running.Go(func() { reportEverNew(ctx, f, "node:1") })
			all = append(all, of)
		}
		time.Sleep(measured)
		var took time.Duration
		for _, of := range all {
			considered := of.considered.Load()
			g.Expect(considered).To(BeNumerically(">=", measured/askInterval), "old answers are found in time")
			took += time.Duration(considered) * lasting
		}
		const savedUp, ticks = time.Second, deployments * (measured / askInterval)
		g.Expect(took).To(BeNumerically("<=", measured/10+savedUp+ticks*lasting+deployments*lasting))
		g.Expect(took).To(BeNumerically(">=", measured/20))
		stop()
		running.Wait()
	})
}

// reportEverNew has a node say something new whenever it may be asked, until ctx is done.
func reportEverNew(ctx context.Context, f *follower, address string) {
	for said := 0; ctx.Err() == nil; said++ {
		by, err := f.shares.begin(ctx, f)
		if err != nil {
			return
		}
		time.Sleep(time.Millisecond)
		by.time.Spend(requestCost)
		by.end()
		f.note(address, f.pollers[address], answer{asked: time.Now(), nodes: &nodes{self: strconv.Itoa(said)}})
	}
}

// A read that was told MOVED is repeated where the key is now, by what the servers have said since.
func TestWhatServersHaveSaidIsKnownAfterARefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const servers, lasting = 16, time.Millisecond
		g := NewWithT(t)
		f := newShares().follower("team")
		of := &slow{lasting: lasting}
		f.deployment = of
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i := range servers {
			address := fmt.Sprintf("node-%d:1", i)
			node := &poller{
				begin: func(ctx context.Context) (*share, error) { return f.shares.begin(ctx, f) },
				ask: func(context.Context, *share) (answer, error) {
					time.Sleep(time.Millisecond)
					return answer{nodes: &nodes{self: time.Now().String()}}, nil
				},
				hurry: make(chan struct{}, 1), stop: func() {},
			}
			of.addresses = append(of.addresses, address)
			f.pollers[address] = node
			running.Go(func() { node.run(ctx, func(said answer) { f.note(address, node, said) }) })
		}
		running.Go(func() { f.run(ctx) })
		time.Sleep(time.Minute)
		for range 10 {
			began := time.Now()
			f.refresh(ctx)
			g.Expect(time.Since(began)).To(BeNumerically("<", refreshTimeout))
			f.mu.Lock()
			for _, said := range f.answers {
				g.Expect(said.tried).To(BeTemporally(">=", began))
			}
			g.Expect(f.considered).To(Equal(f.noted))
			f.mu.Unlock()
			time.Sleep(askInterval / 2)
		}
		stop()
		running.Wait()
	})
}

// The addresses of servers in use are not new, however long ago they were met.
func TestServersInUseAreNotNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		f := newIdleFollower()
		for _, address := range []string{"asked:1", "master:1", "importing:1", "gone:1"} {
			g.Expect(f.meet(address)).To(BeTrue())
		}
		f.pollers["asked:1"] = &poller{}
		f.known.Store(&view{
			masters: []auth.Endpoint{{Address: "master:1"}}, importing: map[uint16]auth.Endpoint{7: {Address: "importing:1"}},
		})
		for range 2 * forgetAddress / askInterval {
			time.Sleep(askInterval)
			f.forget()
		}
		for met := 0; f.meet(fmt.Sprintf("new-%d:1", met)); met++ {
			g.Expect(met).To(BeNumerically("<", mostNewAddresses))
		}
		for _, address := range []string{"asked:1", "master:1", "importing:1"} {
			g.Expect(f.meet(address)).To(BeTrue(), address)
		}
		g.Expect(f.meet("gone:1")).To(BeFalse())
		time.Sleep(newAddressInterval)
		g.Expect(f.meet("gone:1")).To(BeTrue())
	})
}
