// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

const (
	name = "redis.mail.svc:6379"
	rest = time.Minute
)

// dns returns its answers one after the other, and then repeats the last one.
type dns struct {
	answers [][]string
	err     error
	asked   string
}

func (d *dns) LookupHost(_ context.Context, host string) ([]string, error) {
	d.asked = host
	answer := d.answers[0]
	if len(d.answers) > 1 {
		d.answers = d.answers[1:]
	}
	return answer, d.err
}

// connection is a connection to a server at this address.
type connection struct {
	net.Conn
	remote string
}

func (c connection) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote))
}

// network connects to the servers in turn, whatever address is dialed, and records these addresses.
type network struct {
	servers []string
	dialed  []string
}

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.dialed = append(n.dialed, address)
	if len(n.servers) == 0 {
		return nil, errors.New("refused")
	}
	conn := connection{remote: n.servers[0]}
	n.servers = append(n.servers[1:], n.servers[0])
	return conn, nil
}

// hostNamed returns a server with a host name, whose connections are made with dial.
func hostNamed(dial dialFunc) *server {
	pool := NewPool(Options{Dial: dial})
	pool.timing.moveCooldown = rest
	return pool.newServer(auth.Endpoint{Address: name})
}

// pinned returns a server with this address in use.
func pinned(t *testing.T, address string) *server {
	t.Helper()
	servers := network{servers: []string{address}}
	server := hostNamed(servers.dial)
	NewWithT(t).Expect(server.accept(t.Context())).Error().NotTo(HaveOccurred())
	return server
}

func TestAllConnectionsLeadWhereTheFirstDoes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	servers := network{}
	server := hostNamed(servers.dial)
	g.Expect(server.accept(t.Context())).Error().To(HaveOccurred())
	g.Expect(server.addressInUse().IsValid()).To(BeFalse(), "after a dial that failed")

	servers.servers = []string{"[::ffff:10.0.0.1]:6379", "10.0.0.2:6379"}
	for range 3 {
		g.Expect(server.accept(t.Context())).Error().NotTo(HaveOccurred())
	}
	g.Expect(servers.dialed).To(Equal([]string{name, name, "10.0.0.1:6379", "10.0.0.1:6379"}))

	inUse, _ := server.current()
	server.markDown(inUse, errRefusedConnection)
	g.Expect(server.accept(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(servers.dialed[4]).To(Equal(name))
}

// A look-up shows a move, which releases the address.
func TestALookUpShowsAMove(t *testing.T) {
	t.Parallel()
	used, other, third := "10.0.0.1", "10.0.0.2", "10.0.0.3"
	for about, c := range map[string]struct {
		answers [][]string
		err     error
		moved   []bool
	}{
		"the address is there":         {answers: [][]string{{other, used}}, moved: []bool{false, false, false}},
		"it is missing, twice":         {answers: [][]string{{other}}, moved: []bool{false, true, false}},
		"it is missing, in any order":  {answers: [][]string{{other, third}, {third, other}}, moved: []bool{false, true}},
		"it is missing once":           {answers: [][]string{{other}, {used}, {other}, {used}}, moved: []bool{false, false, false, false}},
		"other addresses in rotation":  {answers: [][]string{{other}, {third}, {other}, {third}}, moved: []bool{false, false, false, false}},
		"there is no answer":           {answers: [][]string{{other}}, err: errors.New("no answer"), moved: []bool{false, false}},
		"the answer names no address":  {answers: [][]string{{}}, moved: []bool{false, false}},
		"the address is mapped to six": {answers: [][]string{{"::ffff:" + used}}, moved: []bool{false, false}},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, answers := pinned(t, used+":6379"), &dns{answers: c.answers, err: c.err}
			released := false
			for i, moved := range c.moved {
				g.Expect(server.resolve(t.Context(), answers)).To(Equal(moved), "at look-up %d", i)
				released = released || moved
				g.Expect(server.addressInUse().IsValid()).NotTo(Equal(released), "at look-up %d", i)
				g.Expect(answers.asked).To(Equal("redis.mail.svc"))
			}
		})
	}
}

func TestOneMoveIsNotSoonFollowedByAnother(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		server, answers := pinned(t, "10.0.0.1:6379"), &dns{answers: [][]string{{"10.0.0.2"}}}
		lookUp := func() bool { return server.resolve(t.Context(), answers) }
		lookUp()
		g.Expect(lookUp()).To(BeTrue())

		back := network{servers: []string{"10.0.0.1:6379"}}
		server.dialer = back.dial
		g.Expect(server.accept(t.Context())).Error().NotTo(HaveOccurred())
		lookUp()
		time.Sleep(rest - time.Nanosecond)
		g.Expect(lookUp()).To(BeFalse())
		time.Sleep(time.Nanosecond)
		g.Expect(lookUp()).To(BeTrue())
	})
}

// All connections lead to one server, though the name stands for two, and two connections are made at the same time.
func TestConnectionsThatAreMadeAtOnceLeadToOneServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := newTestServer(newCredentials())
	var dials atomic.Int32
	both := make(chan struct{})
	server.dialer = func(_ context.Context, _, address string) (net.Conn, error) {
		if address != somewhere.Address {
			near, _ := net.Pipe()
			return connection{Conn: near, remote: address}, nil
		}
		n := dials.Add(1)
		if n == 2 {
			close(both)
		}
		<-both
		near, _ := net.Pipe()
		return connection{Conn: near, remote: fmt.Sprintf("192.0.2.%d:6379", n)}, nil
	}
	remotes := make(chan string, 2)
	for range 2 {
		go func() {
			conn, err := server.accept(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			remotes <- conn.RemoteAddr().String()
		}()
	}
	g.Expect(<-remotes).To(Equal(<-remotes))
}

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
	bubble.Run(t, func(t *testing.T, g Gomega) {
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
