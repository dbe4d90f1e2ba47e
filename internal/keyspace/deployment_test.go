// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// newClustered is newHarness with a Redis Cluster that has a node at this address.
func newClustered(t *testing.T, address string) *harness {
	t.Helper()
	endpoint := must.Get(auth.ParseDeployment(auth.ModeCluster, []string{address}))(NewWithT(t))
	return newHarnessOn(t, endpoint, connection.Options{})
}

// announced waits until growth of the keys of an id is announced.
func (h *harness) announced(id string) {
	h.t.Helper()
	h.Eventually(func() bool { return h.State(id).Announced() }).Should(BeTrue(), id)
}

// pushWakes fails unless a push wakes an id, which then reads this depth. Nothing else makes it read.
func (h *harness) pushWakes(id string, push func() error, depth int64) {
	h.t.Helper()
	h.Expect(push()).To(Succeed())
	h.eventually(id, depth)
}

// Each key is watched on the master that has it, and while its slot is being moved on both.
func TestKeysOfAClusterAreWatchedWhereTheyAre(t *testing.T) {
	t.Parallel()
	for name, events := range map[string]string{"notifications": redistest.DefaultEvents, "tracking": redistest.NoEvents} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1, Options: redistest.Options{Events: events}})
			h := newClustered(t, s.Nodes[0].Addr())
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses()})
			t.Cleanup(func() { h.Expect(client.Close()).To(Succeed()) })
			push := func(key string) func() error {
				return func() error { return client.LPush(t.Context(), key, "message").Err() }
			}
			keys := []string{"a", "b", "c"} // On three masters.
			for _, key := range keys {
				h.Ensure(key, h.endpoint, list(key))
				h.eventuallyWoken(key, coalesce.Confirmed, 1)
				if events == redistest.NoEvents {
					h.eventuallyTracked(key, verify.TrackedUnproven)
				}
				h.pushWakes(key, push(key), 1)
				h.announced(key)
			}

			to := must.Get(s.NotOwner(t.Context(), "a"))(h)
			h.Expect(client.Del(t.Context(), "a").Err()).To(Succeed())
			h.eventually("a", 0)
			confirmed := h.count("a", coalesce.Confirmed)
			move := must.Get(s.BeginMigration(t.Context(), "a", to))(h)
			h.eventuallyWoken("a", coalesce.Confirmed, confirmed+1)
			h.pushWakes("a", push("a"), 1) // It is made where the slot goes to.
			h.Expect(move.MoveKeys(t.Context())).To(Succeed())
			h.Expect(move.End(t.Context())).To(Succeed())
			h.pushWakes("a", push("a"), 2)
			h.announced("a")
			h.pushWakes("b", push("b"), 2)
		})
	}
}

// Keys of one id on several masters. The verdict is about all of them.
func TestKeysOfOneIDOnSeveralMasters(t *testing.T) {
	t.Parallel()
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	h := newClustered(t, s.Nodes[0].Addr())
	h.Ensure("all", h.endpoint, list("a"), list("b"), list("c"))
	h.Eventually(h.reason).WithArguments("all").Should(Equal(verify.ReasonSubscribed))
	for _, node := range s.Nodes {
		channels := must.Get(node.Client().PubSubChannels(t.Context(), "*").Result())(h)
		h.Expect(channels).To(HaveLen(1))
	}
	owner := must.Get(s.Owner(t.Context(), s.Nodes[0], "b"))(h)
	do(t, owner, "config", "set", "notify-keyspace-events", "")
	h.Eventually(h.reason).WithArguments("all").Should(Equal(verify.ReasonNotConfigured))
	h.Forget("all")
	for _, node := range s.Nodes {
		h.eventuallySubscribed(node)
	}
}
