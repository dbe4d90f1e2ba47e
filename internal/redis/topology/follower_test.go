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

// counting is a deployment that counts how often its answers are considered.
type counting struct {
	cluster

	considered atomic.Int64
}

func (c *counting) belongs(answer, map[string]bool) bool { return true }

func (c *counting) decide([]answer, int, uint64) *view {
	c.considered.Add(1)
	return &view{err: masterDown()}
}

func (c *counting) wanted(map[string]answer, []auth.Endpoint) []string {
	return []string{"node:1"}
}

func newIdleFollower() *follower {
	return newFollower(nil, auth.Endpoint{Mode: auth.ModeCluster}, make(chan struct{}, 1), logr.Discard())
}

// A server that says something else all the time costs no more than a server that says so now and then.
func TestAnswersThatKeepChangingAreSpaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		of, f := &counting{}, newIdleFollower()
		f.deployment = of
		node := &poller{address: "node:1", stop: func() {}}
		f.pollers[node.address] = node
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		said := 0
		say := func() {
			said++
			f.note(node, answer{asked: time.Now(), nodes: &nodes{self: strconv.Itoa(said)}})
			synctest.Wait()
		}
		for range 10 * answersAtOnce {
			say()
		}
		g.Expect(of.considered.Load()).To(BeNumerically("~", answersAtOnce, 1), "at once")
		for range 10 {
			before := of.considered.Load()
			for range 100 {
				say()
				time.Sleep(time.Millisecond)
			}
			g.Expect(of.considered.Load()-before).To(BeNumerically("~", 100*time.Millisecond/answersInterval, 1), "in 100 ms")
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
