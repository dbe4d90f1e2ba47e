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
			node := &poller{address: "node:1", stop: func() {}}
			f.pollers[node.address] = node
			running.Go(func() { f.run(ctx) })
			running.Go(func() { tellEverNew(ctx, f, node) })
			all = append(all, of)
		}
		time.Sleep(measured)
		var took time.Duration
		for _, of := range all {
			considered := of.considered.Load()
			g.Expect(considered).To(BeNumerically(">=", measured/askInterval), "old answers are found in time")
			took += time.Duration(considered) * lasting
		}
		inPlaces := measured * placesEach / (1 + conclusionCost)
		const ticks = deployments * int64(measured/askInterval)
		g.Expect(took).To(BeNumerically("<=", inPlaces+time.Duration(ticks)*lasting+placesEach*lasting))
		g.Expect(took).To(BeNumerically(">=", inPlaces/2))
		stop()
		running.Wait()
	})
}

// tellEverNew has a node say something new whenever it may be asked, until ctx is done.
func tellEverNew(ctx context.Context, f *follower, node *poller) {
	for said := 0; ; said++ {
		end, err := f.begin(ctx)
		if err != nil {
			return
		}
		number := f.note(node, answer{asked: time.Now(), nodes: &nodes{self: strconv.Itoa(said)}})
		end(costOf(0, f.settle(ctx, number)))
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
			node := &poller{
				address: fmt.Sprintf("node-%d:1", i), conn: connection.NewPool(connection.Options{}).Conn(auth.Endpoint{Address: "node:1"}, 0),
				begin: f.begin, hurry: make(chan struct{}, 1), stop: func() {},
			}
			node.ask = func(context.Context, *connection.Conn) (answer, error) {
				time.Sleep(time.Millisecond)
				return answer{nodes: &nodes{self: time.Now().String()}}, nil
			}
			of.addresses = append(of.addresses, node.address)
			f.pollers[node.address] = node
			running.Go(func() {
				node.run(ctx, func(said answer) time.Duration { return f.settle(ctx, f.note(node, said)) })
			})
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
				g.Expect(said.number).To(BeNumerically("<=", f.considered))
			}
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
