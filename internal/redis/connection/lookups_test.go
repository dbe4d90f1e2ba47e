// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// hangingNames is a DNS that does not answer for names that begin with "hangs". All others resolve to addresses.
type hangingNames struct {
	address                atomic.Value
	underWay, most, hidden atomic.Int32
}

func (h *hangingNames) LookupHost(ctx context.Context, host string) ([]string, error) {
	if !strings.HasPrefix(host, "hangs") {
		return []string{h.address.Load().(string)}, nil
	}
	h.hidden.Add(1)
	if now := h.underWay.Add(1); now > h.most.Load() {
		h.most.Store(now)
	}
	defer h.underWay.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Ten namespaces, each with as many servers as it may use, have name servers that hang. The names of others are
// followed as soon as ever.
func TestNamesThatHangHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const before, after = "192.0.2.1", "192.0.2.2"
		dns := &hangingNames{}
		dns.address.Store(before)
		pool := NewPool(Options{})
		pool.dns = dns
		use := func(tenant, host string) *server {
			e := auth.Endpoint{Address: host + ":6379"}
			g.Expect(pool.Claim(tenant, host, e, 0)).To(Succeed())
			pool.remember(pool.newServer(e))
			pool.servers[e].pin.address = netip.MustParseAddrPort(before + ":6379")
			return pool.servers[e]
		}
		for tenant := range 10 {
			for i := range 64 {
				use(fmt.Sprint("hostile-", tenant), fmt.Sprintf("hangs-%d-%d", tenant, i))
			}
		}
		var others []*server
		for i := range 10 {
			others = append(others, use("quiet", fmt.Sprint("redis-", i)))
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go pool.followNames(ctx)

		time.Sleep(2 * time.Minute)
		g.Expect(dns.hidden.Load()).To(BeNumerically(">", 100), "names hang")
		for round := range 3 {
			dns.address.Store(after)
			time.Sleep(45 * time.Second)
			for i, other := range others {
				g.Expect(other.pin.Address().IsValid()).To(BeFalse(), "redis-%d was not followed, round %d", i, round)
				other.pin.mu.Lock()
				other.pin.address, other.pin.movedAt = netip.MustParseAddrPort(before+":6379"), time.Time{}
				other.pin.mu.Unlock()
			}
			dns.address.Store(before)
			time.Sleep(5 * time.Minute)
		}
		g.Expect(dns.most.Load()).To(BeNumerically("<=", 10*lookUpsAtOnce))
		stop()
		synctest.Wait()
	})
}

func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	quota := newServerQuota(0)
	server := func(name string) claim {
		return claim{serverDatabase: serverDatabase{endpoint: auth.Endpoint{Address: name}}}
	}
	for i := range 64 {
		g.Expect(quota.add(Owner{"many", fmt.Sprint(i)}, server(fmt.Sprint(i)))).To(Succeed())
	}
	g.Expect(quota.add(Owner{"few", "a"}, server("few"))).To(Succeed())
	g.Expect(quota.add(Owner{"few", "b"}, server("63"))).To(Succeed())
	turns := quota.turns()
	g.Expect(turns).To(HaveLen(65))
	g.Expect(turns[server("few").endpoint]).To(BeNumerically("<=", 1))
	g.Expect(turns[server("63").endpoint]).To(BeNumerically("<=", 1), "it has the better of its turns")
}
