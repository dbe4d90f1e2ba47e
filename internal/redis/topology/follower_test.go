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
)

// slow is a deployment whose answers take so long to consider.
type slow struct {
	cluster

	lasting    time.Duration
	considered atomic.Int64
}

func (*slow) belongs(answer, map[string]bool) bool { return true }

func (s *slow) decide([]answer, int, uint64) *view {
	time.Sleep(s.lasting)
	s.considered.Add(1)
	return &view{err: masterDown()}
}

func (*slow) wanted(map[string]answer, []auth.Endpoint) []string { return []string{"node:1"} }

func newIdleFollower() *follower {
	return newFollower(nil, newShares(), auth.Endpoint{Mode: auth.ModeCluster}, make(chan struct{}, 1), logr.Discard())
}

// Servers of a tenant that say something else all the time take no more than a part of one core, however many they are.
func TestConclusionsOfATenantAreSpaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const deployments, lasting, each = 16, 5 * time.Millisecond, 10 * time.Second
		g := NewWithT(t)
		shares := newShares()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var all []*slow
		for range deployments {
			of, f := &slow{lasting: lasting}, newIdleFollower()
			f.deployment, f.shares = of, shares
			shares.join(f, "hostile")
			node := &poller{address: "node:1", stop: func() {}}
			f.pollers[node.address] = node
			running.Go(func() { f.run(ctx) })
			running.Go(func() {
				for said := 0; pause(ctx, time.Millisecond, nil); said++ {
					f.note(node, answer{asked: time.Now(), nodes: &nodes{self: strconv.Itoa(said)}})
				}
			})
			all = append(all, of)
		}
		time.Sleep(each)
		var took time.Duration
		for _, of := range all {
			considered := of.considered.Load()
			g.Expect(considered).To(BeNumerically(">=", each/askInterval), "old answers are found in time")
			took += time.Duration(considered) * lasting
		}
		inPlaces := each * placesEach / (1 + conclusionCost)
		const ticks = deployments * int64(each/askInterval)
		byTicks := time.Duration(ticks) * lasting
		g.Expect(took).To(BeNumerically("<=", inPlaces+byTicks+placesEach*lasting))
		g.Expect(took).To(BeNumerically(">=", inPlaces/2))
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
