// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// deafness is how long no event may come until it is taken for lost.
const deafness = 3 * time.Second

// The negative controls: with the subscriptions of the client library, which the watcher that one writes first would
// use, the same faults lose wake-ups. The library follows the master with its commands only.

func TestControlSubscriptionOfTheLibraryDuringAFailover(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1})
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: r.Addresses()})
	t.Cleanup(func() { g.Expect(client.Close()).To(Succeed()) })
	events := subscribed(t, client)
	push := func() error { return client.LPush(t.Context(), "emails", "message").Err() }
	g.Expect(push()).To(Succeed())
	g.Eventually(events).WithTimeout(stopTimeout).Should(Receive())

	g.Expect(r.AwaitFormed(t.Context())).To(Succeed())
	g.Expect(r.Failover(t.Context(), r.Sentinels[0])).To(Succeed())
	next := r.Servers[1].Client()
	g.Eventually(func() error { return next.LPush(t.Context(), "emails", "message").Err() }).WithTimeout(stopTimeout).Should(Succeed())
	g.Consistently(events, deafness).ShouldNot(Receive())
}

func TestControlSubscriptionOfTheLibraryWhileASlotMoves(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	owner := must.Get(s.Owner(t.Context(), s.Nodes[0], "emails"))(g)
	events := subscribed(t, owner.Client()) // Where a careful one subscribes.
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses()})
	t.Cleanup(func() { g.Expect(client.Close()).To(Succeed()) })
	push := func() error { return client.LPush(t.Context(), "emails", "message").Err() }
	g.Expect(push()).To(Succeed())
	g.Eventually(events).WithTimeout(stopTimeout).Should(Receive())

	g.Expect(client.Del(t.Context(), "emails").Err()).To(Succeed())
	to := s.Nodes[0]
	if to == owner {
		to = s.Nodes[1]
	}
	g.Expect(move(t.Context(), s, "emails", to, none)).To(Succeed())
	for len(events) > 0 { // That the key was deleted.
		<-events
	}
	g.Expect(push()).To(Succeed())
	g.Consistently(events, deafness).ShouldNot(Receive())
}

// subscribed returns the events of the key emails.
func subscribed(t *testing.T, client *redis.Client) <-chan *redis.Message {
	t.Helper()
	g := NewWithT(t)
	pubSub := client.Subscribe(t.Context(), "__keyspace@0__:emails")
	t.Cleanup(func() { g.Expect(pubSub.Close()).To(Succeed()) })
	g.Expect(pubSub.Receive(t.Context())).Error().NotTo(HaveOccurred())
	return pubSub.Channel()
}
