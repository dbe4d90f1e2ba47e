// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// The library goes on with a dial whose call has given up. Nobody may use that connection for a long time, and others
// must be able to connect.
func TestAbandonedDialHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewScripted(t, redistest.Replies{}.Script)
	var dials atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	pool := startReal(t, func(p *Pool) {
		p.timing.openTimeout = 5 * time.Second
		p.dialer = func(_ context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				close(begun)
				<-goOn
			}
			return new(net.Dialer).DialContext(t.Context(), network, address)
		}
	})
	conn := pool.Conn(auth.Endpoint{Address: server.Addr()}, 0)
	ctx, giveUp := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		g.Expect(readLength(ctx, conn)).Error().To(MatchError(context.Canceled))
	})
	<-begun
	giveUp()
	calls.Wait()
	close(goOn)
	g.Eventually(server.Dials).WithTimeout(timeout).Should(Equal(1), "the dial goes on")

	wire, err := conn.OpenWire(t.Context())
	g.Expect(err).NotTo(HaveOccurred(), "the abandoned dial holds up a subscription")
	wire.Close()
	_, err = readLength(t.Context(), pool.Conn(conn.Endpoint(), 5))
	g.Expect(err).NotTo(HaveOccurred(), "and another database")
	g.Expect(readLength(t.Context(), conn)).Error().NotTo(HaveOccurred())
	g.Expect(server.Dials()).To(Equal(3), "the connection of the abandoned dial is used")
}

// farAway makes each round trip to a server take a quarter of a second: to connect, for TLS, and for commands.
func farAway(p *Pool) {
	impatient(p)
	near := p.dialer
	p.dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return near(ctx, network, address)
	}
}

// A server on another continent, with TLS and another database than 0, is read, watched and found again.
func TestServerFarAwayIsReached(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	authority := certificates.NewAuthority(t)
	server := redistest.New(t, redistest.Options{TLS: &redistest.TLS{Server: authority.Server(t, "127.0.0.1")}})
	proxy := tcpproxy.New(t, server.Addr())
	proxy.Delay(125 * time.Millisecond)
	secrets := withSecrets(newSecrets(map[string]string{"ca.crt": string(authority.Certificate())}))
	conn := startReal(t, secrets, farAway).Conn(tlsEndpoint(proxy.Addr()), 5)
	read := func() error {
		_, err := readLength(t.Context(), conn)
		return err
	}
	g.Eventually(read).WithTimeout(timeout).Should(Succeed())
	g.Expect(read()).To(Succeed(), "the connection is kept")
	openWire(t, conn).Close()

	g.Expect(proxy.Refuse()).To(Succeed())
	proxy.Reset()
	g.Eventually(func() bool {
		_, err := readLength(t.Context(), conn)
		return err != nil && !failure.Classify(err).Busy()
	}).WithTimeout(timeout).Should(BeTrue(), "the server is down")
	g.Expect(proxy.Pass()).To(Succeed())
	g.Expect(conn.WaitUp(t.Context())).To(Succeed(), "the prober reaches it")
	g.Eventually(read).WithTimeout(timeout).Should(Succeed())
}

// The handshake takes one round trip, in which the server is asked everything that the operator has to know. Servers
// and services that do not know HELLO, or reject it, get AUTH.
func TestHandshake(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hello    bool
		username string
		asked    []string
	}{
		"HELLO":           {true, "reader", []string{"hello 3 auth reader secret", "select 5", "llen emails"}},
		"AUTH, no user":   {false, "", []string{"hello 3 auth default secret", "select 5", "auth secret", "select 5", "llen emails"}},
		"AUTH and a user": {false, "reader", []string{"hello 3 auth reader secret", "select 5", "auth reader secret", "select 5", "llen emails"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var mu sync.Mutex
			var asked []string
			server := redistest.NewScripted(t, func(args []string) string {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, strings.Join(args, " "))
				switch {
				case test.hello:
					return redistest.Usual
				case args[0] == "hello":
					return "-ERR unknown command `hello`\r\n"
				case args[0] == "auth":
					return "+OK\r\n"
				case args[0] == "select" && len(asked) == 2:
					return "-NOAUTH Authentication required.\r\n"
				}
				return redistest.Usual
			})
			pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": "secret"})))
			e := auth.Endpoint{Address: server.Addr(), Username: test.username, Password: password, Namespace: namespace}
			length(t, pool.Conn(e, 5))
			g.Expect(asked).To(Equal(test.asked))
		})
	}
}
