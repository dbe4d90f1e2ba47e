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
	"time"
	"unique"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// slow is a deployment whose responses take so long to merge.
type slow struct {
	cluster

	addresses []string
	lasting   time.Duration
	processed atomic.Int64
}

func (*slow) isMember(response, map[string]bool) bool { return true }

func (s *slow) merge([]response, int, bool, uint64) *view {
	time.Sleep(s.lasting)
	s.processed.Add(1)
	return &view{err: masterDown()}
}

func (s *slow) wanted(map[string]response, []auth.Endpoint) []string { return s.addresses }

// newIdleWatcher returns a watcher of a deployment at this address, whose servers it does not poll.
func newIdleWatcher(mode auth.Mode, address string) *watcher {
	e := auth.Endpoint{Mode: mode, Address: address, Sentinels: unique.Make(auth.Sentinels{MasterName: "jobs"})}
	return newWatcher(connection.NewPool(connection.Options{}), newShares(), e, logr.Discard())
}

// Servers of a tenant whose responses always differ take no more than a part of one core, however many they are.
func TestConclusionsOfATenantAreSpaced(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		const deployments, lasting, measured = 16, 5 * time.Millisecond, 10 * time.Second
		shares := newShares()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var all []*slow
		for range deployments {
			of, f := &slow{lasting: lasting, addresses: []string{"node:1"}}, shares.watcher("hostile")
			f.deployment = of
			f.pollers["node:1"] = &poller{stop: func() {}}
			running.Go(func() { f.run(ctx) })
			running.Go(func() { reportEverNew(ctx, f, "node:1") })
			all = append(all, of)
		}
		time.Sleep(measured)
		var took time.Duration
		for _, of := range all {
			processed := of.processed.Load()
			g.Expect(processed).To(BeNumerically(">=", measured/pollInterval), "old responses are found in time")
			took += time.Duration(processed) * lasting
		}
		const savedUp, ticks = time.Second, deployments * 10 // one a second
		g.Expect(took).To(BeNumerically("<=", measured/10+savedUp+ticks*lasting+deployments*lasting))
		g.Expect(took).To(BeNumerically(">=", measured/20))
		stop()
		running.Wait()
	})
}

// reportEverNew has a node report something new whenever it may be polled, until ctx is done.
func reportEverNew(ctx context.Context, f *watcher, address string) {
	for said := 0; ctx.Err() == nil; said++ {
		by, err := f.shares.begin(ctx, f)
		if err != nil {
			return
		}
		time.Sleep(time.Millisecond)
		by.time.Charge(requestCost)
		by.end()
		f.record(address, f.pollers[address], response{sentAt: time.Now(), nodes: &nodes{self: strconv.Itoa(said)}})
	}
}

// A read that got MOVED is repeated where the key is now, by what the servers have reported since.
func TestWhatServersHaveSaidIsKnownAfterARefresh(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		const servers, lasting = 16, time.Millisecond
		f := newShares().watcher("team")
		of := &slow{lasting: lasting}
		f.deployment = of
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i := range servers {
			address := fmt.Sprintf("node-%d:1", i)
			node := &poller{
				begin: func(ctx context.Context) (*share, error) { return f.shares.begin(ctx, f) },
				request: func(context.Context, *share) (response, error) {
					time.Sleep(time.Millisecond)
					return response{nodes: &nodes{self: time.Now().String()}}, nil
				},
				pollNow: make(chan struct{}, 1), stop: func() {},
			}
			of.addresses = append(of.addresses, address)
			f.pollers[address] = node
			running.Go(func() { node.run(ctx, func(said response) { f.record(address, node, said) }) })
		}
		running.Go(func() { f.run(ctx) })
		time.Sleep(time.Minute)
		for range 10 {
			began := time.Now()
			f.refresh(ctx)
			g.Expect(time.Since(began)).To(BeNumerically("<", refreshTimeout))
			f.mu.Lock()
			for _, said := range f.responses {
				g.Expect(said.triedAt).To(BeTemporally(">=", began))
			}
			g.Expect(f.processed).To(Equal(f.received))
			f.mu.Unlock()
			time.Sleep(pollInterval / 2)
		}
		stop()
		running.Wait()
	})
}

// The addresses of servers in use are not new, however long ago they were met.
func TestServersInUseAreNotNew(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		f := newIdleWatcher(auth.ModeCluster, "")
		for _, address := range []string{"asked:1", "master:1", "importing:1", "gone:1"} {
			g.Expect(f.mayUse(address)).To(BeTrue())
		}
		f.pollers["asked:1"] = &poller{}
		f.known.Store(&view{
			masters: []auth.Endpoint{{Address: "master:1"}}, importing: map[uint16]auth.Endpoint{7: {Address: "importing:1"}},
		})
		for range 2 * forgetAddress / pollInterval {
			time.Sleep(pollInterval)
			f.forgetAddresses()
		}
		for met := 0; f.mayUse(fmt.Sprintf("new-%d:1", met)); met++ {
			g.Expect(met).To(BeNumerically("<", mostNewAddresses))
		}
		for _, address := range []string{"asked:1", "master:1", "importing:1"} {
			g.Expect(f.mayUse(address)).To(BeTrue(), address)
		}
		g.Expect(f.mayUse("gone:1")).To(BeFalse())
		time.Sleep(newAddressInterval)
		g.Expect(f.mayUse("gone:1")).To(BeTrue())
	})
}
