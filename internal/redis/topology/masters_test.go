// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// slotsEach is how many slots each of the 64 masters of the announced Cluster has.
const slotsEach = 256

// announced is a node of a Cluster of 64 masters at 127.<network>.<master>.1.
type announced struct {
	*redistest.Scripted

	network atomic.Int64
}

func newAnnounced(t *testing.T) *announced {
	t.Helper()
	a := &announced{}
	a.network.Store(1)
	a.Scripted = announcing(t, func() (said []string) {
		for master := range 64 {
			first := master * slotsEach
			said = append(said, slotsOf(first, first+slotsEach-1, fmt.Sprintf("127.%d.%d.1", a.network.Load(), master)))
		}
		return said
	})
	return a
}

// announcing returns a node that announces these slots, in parts made by slotsOf.
func announcing(t *testing.T, slots func() []string) *redistest.Scripted {
	t.Helper()
	return redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] != "cluster":
			return redistest.Usual
		case args[1] != "slots":
			return "-ERR unknown subcommand\r\n"
		}
		said := slots()
		return fmt.Sprintf("*%d\r\n%s", len(said), strings.Join(said, ""))
	})
}

// slotsOf is a part of a reply to CLUSTER SLOTS.
func slotsOf(first, last int, host string) string {
	return fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:1\r\n", first, last, len(host), host)
}

// keysOf returns a key of each of these masters.
func keysOf(masters ...int) (keys []string) {
	for _, master := range masters {
		for i := 0; ; i++ {
			if key := strconv.Itoa(i); int(topology.SlotOf(key))/slotsEach == master {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// A namespace may use three servers. It may use a Cluster of 64 masters, but its keys may be on three of them only.
func TestMastersWithKeysCount(t *testing.T) {
	t.Parallel()
	node := newAnnounced(t)
	pool := connection.NewPool(connection.Options{ServersPerTenant: 3, CallTimeout: timeout})
	h := followWith(t, pool, deployment(t, auth.ModeCluster, node.Addr()))
	h.Eventually(h.owner("emails")).ShouldNot(BeEmpty())
	h.Release("team", "emails")
	reason := func(err error) failure.Reason {
		if err == nil {
			return ""
		}
		return failure.Classify(err).Reason
	}
	claim := func(name string, masters ...int) failure.Reason {
		return reason(h.Claim("team", name, h.endpoint, 0, keysOf(masters...)...))
	}
	located := func(master int) func() failure.Reason {
		return func() failure.Reason {
			_, err := h.Route(h.endpoint, keysOf(master)[0])
			return reason(err)
		}
	}
	h.Expect(claim("early", 10, 11)).To(BeEmpty(), "nothing is known of the Cluster yet")
	h.Eventually(located(10)).Should(BeEmpty())
	h.Expect(claim("one", 12, 10)).To(BeEmpty())
	h.Expect(claim("many", 20, 21, 22, 23)).To(Equal(failure.ReasonTooManyServers))
	h.Expect(located(20)()).To(Equal(failure.ReasonTooManyServers), "neither a read nor a subscription goes there")
	h.Expect(located(12)()).To(BeEmpty(), "the others go on")

	node.network.Store(2)
	host := func() string {
		at, _ := h.Route(h.endpoint, keysOf(12)[0])
		host, _, _ := net.SplitHostPort(at.Owner.Address)
		return host
	}
	h.Eventually(host).Should(Equal("127.2.12.1"), "other masters have the keys now, but not more")
	h.Expect(located(10)()).To(BeEmpty())
	h.Expect(located(20)()).To(Equal(failure.ReasonTooManyServers))

	h.Release("team", "early")
	h.Expect(claim("many", 10, 20)).To(BeEmpty(), "10, 12 and 20")
	h.Expect(located(20)()).To(BeEmpty())
	h.Release("team", "one")
	h.Release("team", "many")
	h.Expect(h.Claim("team", "last", auth.Endpoint{Address: "127.0.0.1:1"}, 0)).To(Succeed())
}
