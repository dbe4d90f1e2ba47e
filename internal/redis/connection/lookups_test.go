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
	address atomic.Value
	hidden  atomic.Int32
}

func (h *hangingNames) LookupHost(ctx context.Context, host string) ([]string, error) {
	if !strings.HasPrefix(host, "hangs") {
		return []string{h.address.Load().(string)}, nil
	}
	h.hidden.Add(1)
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
			server := pool.newServer(e)
			server.users = 1
			server.pin.address = netip.MustParseAddrPort(before + ":6379")
			pool.remember(server)
			return server
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
		go func() { _ = pool.Start(ctx) }()

		time.Sleep(2 * time.Minute)
		g.Expect(dns.hidden.Load()).To(BeNumerically(">", 100), "names hang")
		for round := range 3 {
			dns.address.Store(after)
			time.Sleep(45 * time.Second)
			for i, other := range others {
				g.Expect(other.addressInUse().IsValid()).To(BeFalse(), "redis-%d was not followed, round %d", i, round)
				other.mu.Lock()
				other.pin.address, other.pin.movedAt = netip.MustParseAddrPort(before+":6379"), time.Time{}
				other.mu.Unlock()
			}
			dns.address.Store(before)
			time.Sleep(5 * time.Minute)
		}
		stop()
		synctest.Wait()
	})
}
