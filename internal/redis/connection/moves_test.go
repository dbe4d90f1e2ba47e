// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// named is an endpoint with a host name.
var named = auth.Endpoint{Address: "redis.mail.svc:6379"}

// zone is a DNS zone with one name, and a network with a server at each address.
type zone struct {
	servers map[string]*redistest.Server // by address

	mu      sync.Mutex
	address string
	lookUps int
}

// newZone returns a zone with a server at each of two addresses. Their queues have different lengths.
func newZone(t *testing.T) *zone {
	t.Helper()
	z := &zone{servers: map[string]*redistest.Server{}}
	for i, address := range []string{"127.0.0.1", "127.0.0.2"} {
		server := redistest.New(t, redistest.Options{Args: []string{"--bind", "127.0.0.1", "127.0.0.2"}})
		for range i + 1 {
			NewWithT(t).Expect(server.Client().LPush(t.Context(), "emails", "x").Err()).To(Succeed())
		}
		z.servers[address] = server
	}
	return z
}

// point makes the name resolve to this address.
func (z *zone) point(address string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.address = address
}

func (z *zone) LookupHost(context.Context, string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.lookUps++
	return []string{z.address}, nil
}

func (z *zone) asked() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.lookUps
}

// dial resolves the name, as a dialer does.
func (z *zone) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != named.Address {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	addresses, err := z.LookupHost(ctx, address)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(z.servers[addresses[0]].Addr())
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(addresses[0], port))
}

func (z *zone) start(t *testing.T) *Conn {
	t.Helper()
	pool := start(t, z.dial, patient, func(p *Pool) {
		p.dns, p.timing.lookUp, p.timing.moveCooldown = z, 10*time.Millisecond, 0
	})
	return pool.Conn(named, 0)
}

// subscribed opens a connection for subscriptions. The channel is closed when it has ended.
func subscribed(t *testing.T, conn *Conn) (ended <-chan struct{}) {
	t.Helper()
	g := NewWithT(t)
	wire := openWire(t, conn)
	g.Expect(ask(wire, "subscribe", "news")).To(BeEquivalentTo([]any{"subscribe", "news", int64(1)}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := wire.Receive(time.Hour); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { wire.Close(); <-done })
	return done
}

func TestANameThatPointsElsewhereIsFollowed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	z := newZone(t)
	z.point("127.0.0.1")
	conn := z.start(t)
	g.Expect(length(t, conn)).To(BeEquivalentTo(1))
	ended := subscribed(t, conn)

	z.point("127.0.0.2")
	g.Eventually(ended).WithTimeout(timeout).Should(BeClosed(), "although the old server still runs")
	g.Eventually(func() int64 { return length(t, conn) }).WithTimeout(timeout).Should(BeEquivalentTo(2))
	ended = subscribed(t, conn)
	before := z.asked()
	g.Eventually(z.asked).WithTimeout(timeout).Should(BeNumerically(">", before+3))
	g.Expect(ended).NotTo(BeClosed(), "the connection to the new server stays")
}

// keepUsing has so many users call use again and again, until stop returns. They leave time to others on the machine.
func keepUsing(t *testing.T, users int, use func()) (stop func()) {
	t.Helper()
	turns, stopped := time.NewTicker(time.Millisecond), make(chan struct{})
	var running sync.WaitGroup
	for range users {
		running.Go(func() {
			for {
				select {
				case <-turns.C:
					use()
				case <-stopped:
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		turns.Stop()
		close(stopped)
		running.Wait()
	})
}

// Calls that run while a name moves do not mark the server down, and no connection leaks.
func TestMovesDisturbNobody(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	z := newZone(t)
	z.point("127.0.0.1")
	conn := z.start(t)
	length(t, conn)
	stop := keepUsing(t, 8, func() {
		_, err := readLength(t.Context(), conn)
		g.Expect(err).To(Or(Succeed(), MatchError(failure.ErrBusy)))
		if wire, err := conn.OpenWire(t.Context()); err == nil {
			wire.Close()
		}
	})
	for round := range 20 {
		z.point([]string{"127.0.0.2", "127.0.0.1"}[round%2])
		before := z.asked()
		g.Eventually(z.asked).WithTimeout(timeout).Should(BeNumerically(">", before+3))
	}
	stop()
	conn.pool.mu.Lock()
	server := conn.pool.servers[named]
	conn.pool.mu.Unlock()
	g.Expect(server.users).To(BeZero())
	g.Expect(server.wires).To(BeEmpty())
}
