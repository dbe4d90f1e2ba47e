// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// timeout is how long a test waits for something that must happen.
const timeout = 30 * time.Second

// atOnce is how many calls some tests make at the same time: as many as there are workers.
const atOnce = 32

// After a restart between two calls, the connections of the pool are closed, but no call fails.
func TestARestartBetweenCallsIsNotNoticed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	var readers sync.WaitGroup
	for range atOnce {
		readers.Go(func() { g.Expect(length(t, conn)).To(BeZero()) })
	}
	readers.Wait()
	g.Expect(server.Restart(t.Context())).To(Succeed())
	g.Expect(readLength(t.Context(), conn)).Error().NotTo(HaveOccurred())
}

// Whoever may publish on a channel, or is the server, decides how large a message is.
func TestALargeMessageEndsAWire(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	wire := openWire(t, conn)
	g.Expect(ask(wire, "subscribe", "news")).To(BeEquivalentTo([]any{"subscribe", "news", int64(1)}))
	publish := func(bytes int) {
		g.Expect(server.Client().Publish(t.Context(), "news", strings.Repeat("x", bytes)).Err()).To(Succeed())
	}
	publish(8 << 10)
	g.Expect(receive(wire)).To(ContainElement(HaveLen(8 << 10)))
	publish(20 << 10)
	_, err := receive(wire)
	g.Expect(failure.Classify(err).Message).To(ContainSubstring("replies that are too large"))
}

func TestAWireKeepsItsEndpoint(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	pool := startReal(t, func(p *Pool) { p.timing.idle, p.timing.sweep = time.Millisecond, time.Millisecond })
	endpoints := func() []auth.Endpoint {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return slices.Collect(maps.Keys(pool.servers))
	}
	used := auth.Endpoint{Address: server.Addr()}
	wire := must.Get(pool.Conn(used, 0).OpenWire(t.Context()))(g)
	g.Expect(pool.Conn(somewhere, 0).Do(t.Context(), answer(nil))).To(Succeed())
	g.Eventually(endpoints).WithTimeout(timeout).Should(ConsistOf(used))
	wire.Close()
	g.Eventually(endpoints).WithTimeout(timeout).Should(BeEmpty())
	wire.Close()
}

// startReal runs a pool with real connections until the test ends. It is patient, since a machine may be busy.
func startReal(t *testing.T, prepare ...func(*Pool)) *Pool {
	t.Helper()
	return start(t, (&net.Dialer{Timeout: timeout}).DialContext, append([]func(*Pool){patient}, prepare...)...)
}

// served returns a real server and a connection to it.
func served(t *testing.T) (*redistest.Server, *Conn) {
	t.Helper()
	server := redistest.New(t, redistest.Options{})
	return server, startReal(t).Conn(auth.Endpoint{Address: server.Addr()}, 0)
}

// openWire opens a wire that is closed when the test ends.
func openWire(t *testing.T, conn *Conn) *Wire {
	t.Helper()
	wire := must.Get(conn.OpenWire(t.Context()))(NewWithT(t))
	t.Cleanup(wire.Close)
	return wire
}

// ask sends a command and returns the next message or reply.
func ask(wire *Wire, command ...string) (any, error) {
	if err := wire.Send(command); err != nil {
		return nil, err
	}
	return receive(wire)
}

// patient makes a pool wait for as long as a test does.
func patient(p *Pool) {
	p.timing.call, p.timing.dial, p.timing.openTimeout, p.timing.lateAfter = timeout, timeout, timeout, timeout
}

// impatient makes a pool wait as in production, for tests in which no answer comes.
func impatient(p *Pool) {
	is := productionTiming()
	p.timing.call, p.timing.dial, p.timing.openTimeout, p.timing.lateAfter = is.call, is.dial, is.openTimeout, is.lateAfter
}

// roomy has connections for all calls that are made at the same time, and for those that have given up while the dial
// goes on. Calls that wait for one would share timers of the client library between synctest bubbles.
func roomy(p *Pool) { p.connections = 4 * atOnce }

// piped is a dialer of connections that serve answers until it returns, without a network.
func piped(serve func(net.Conn)) dialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			serve(far)
		}()
		return connection{Conn: near, remote: "192.0.2.1:6379"}, nil
	}
}

func readLength(ctx context.Context, conn *Conn) (length int64, err error) {
	err = conn.Do(ctx, func(ctx context.Context, client Client) error {
		length, err = client.LLen(ctx, "emails").Result()
		return err
	})
	return length, err
}

// length reads the length of a queue, and retries if the machine is too busy to answer in time.
func length(t *testing.T, conn *Conn) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		length, err := readLength(ctx, conn)
		if err == nil {
			return length
		}
		if ctx.Err() != nil {
			t.Error(err)
			return -1
		}
		_ = conn.WaitUp(ctx)
		time.Sleep(10 * time.Millisecond)
	}
}

// Many calls that begin at once wait for dials, and the higher the latency, the longer. That does not mean that the
// server is down.
func TestADistantServerIsNotTakenToBeDown(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		const latency = 80 * time.Millisecond
		var dials atomic.Int32
		near := piped(func(conn net.Conn) {
			dials.Add(1)
			for args := range redistest.Commands(conn) {
				<-time.After(latency)
				_, _ = io.WriteString(conn, redistest.UsualAnswer(args))
			}
		})
		conn := start(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			<-time.After(latency)
			return near(ctx, network, address)
		}, roomy).Conn(somewhere, 0)
		var users sync.WaitGroup
		for range atOnce {
			users.Go(func() {
				for served := false; !served; <-time.After(5 * time.Millisecond) {
					_, err := readLength(t.Context(), conn)
					g.Expect(err).To(Or(Succeed(), MatchError(failure.ErrBusy)))
					served = err == nil
				}
			})
		}
		users.Wait()
		time.Sleep(5 * time.Second) // The dials whose calls have given up end.
		g.Expect(dials.Load()).To(BeNumerically("<=", 2*atOnce), "calls that gave up left their connections to later ones")
	})
}

// If a server rejects all connections of the operator, it is down, whatever the reason.
func TestAFullServerWithoutAConnectionOfOursIsDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	g.Expect(server.Client().ConfigSet(t.Context(), "maxclients", "1").Err()).To(Succeed())
	_, err := readLength(t.Context(), conn)
	g.Expect(err).NotTo(MatchError(failure.ErrBusy))
	g.Expect(failure.Classify(err).Message).To(ContainSubstring("accepts no more clients"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	g.Expect(conn.WaitUp(ctx)).To(MatchError(context.DeadlineExceeded), "the endpoint is down")
}

// A subscription connection uses the same credentials as all others.
func TestRefusedCredentialsOnAWireTakeTheEndpointDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewScripted(t, redistest.Replies{"ping": "-NOAUTH Authentication required.\r\n"}.Script)
	conn := startReal(t).Conn(auth.Endpoint{Address: server.Addr()}, 0)
	wire := openWire(t, conn)
	_, err := ask(wire, "ping")
	g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonAuthFailed))
	_, err = readLength(t.Context(), conn)
	g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonAuthFailed))
	g.Expect(server.Dials()).To(Equal(1), "no further call has to dial")
}

// A user who can write to a key can make its value too large to read. That must not cut all other users off from the
// server.
func TestAReplyThatIsTooLargeDoesNotTakeTheEndpointDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	g.Expect(length(t, conn)).To(BeZero())
	g.Expect(server.Client().Set(t.Context(), "large", strings.Repeat("x", 2<<20), 0).Err()).To(Succeed())
	err := conn.Do(t.Context(), func(ctx context.Context, client Client) error {
		return client.Get(ctx, "large").Err()
	})
	g.Expect(failure.Classify(err).Message).To(ContainSubstring("replies that are too large"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(conn.WaitUp(ctx)).To(Succeed(), "the endpoint is not down")
	g.Expect(length(t, conn)).To(BeZero())
}
