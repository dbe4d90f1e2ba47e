// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// clientsOf returns how many clients a server has, except for that of the test.
func clientsOf(t *testing.T, server *redistest.Server) int {
	t.Helper()
	list := must.Get(server.Client().ClientList(t.Context()).Result())(NewWithT(t))
	return strings.Count(list, "\n") - 1
}

// untilRenewed uses a wire until it has a successor.
func untilRenewed(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// An endpoint is claimed and released again and again, while passwords change, and connections are made and used.
func TestAnEndpointThatComesAndGoesLeavesNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, passwords := redistest.New(t, redistest.Options{}), []string{"first", "second", "third"}
	endpoint, secrets := user(t, server, "reader", "first"), newSecrets(nil)
	for _, next := range passwords {
		g.Expect(server.Client().Do(t.Context(), "acl", "setuser", "reader", ">"+next).Err()).To(Succeed())
	}
	pool := startReal(t, withSecrets(secrets), func(p *Pool) { p.timing.reread, p.timing.sweep = 5*time.Millisecond, 3*time.Millisecond })
	conn := pool.Conn(endpoint, 0)
	for round := range 200 {
		secrets.set(map[string]string{"password": passwords[round%len(passwords)]})
		g.Expect(pool.Claim("team", "a", endpoint, 0)).To(Succeed())
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
		var both sync.WaitGroup
		both.Go(func() { _, _ = readLength(ctx, conn) })
		both.Go(func() {
			wire, err := conn.OpenWire(ctx)
			for err == nil && wire != nil {
				wire, _ = conn.UseWire(ctx, wire, untilRenewed)
			}
		})
		if round%2 == 0 {
			pool.Release("team", "a")
		}
		both.Wait()
		cancel()
		pool.Release("team", "a")
	}
	g.Eventually(clientsOf).WithArguments(t, server).WithTimeout(timeout).Should(BeZero())
	pool.mu.Lock()
	defer pool.mu.Unlock()
	g.Expect(pool.servers).To(BeEmpty())
}

// The use of a wire ends when its successor is just being made. Either the successor is used, or it is closed.
func TestTheUseOfAWireEndsWhileItIsReplaced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	used := must.Get(conn.pool.acquire(conn.endpoint))(g)
	defer conn.pool.release(used)
	errEnd := errors.New("the end")
	for range 300 {
		wire := must.Get(conn.OpenWire(t.Context()))(g)
		next, err := conn.UseWire(t.Context(), wire, func(ctx context.Context) error {
			inUse, _ := used.current()
			used.replace(inUse, newCredentials())
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(rand.N(time.Millisecond)):
				return errEnd
			}
		})
		if next == nil {
			g.Expect(err).To(MatchError(errEnd))
			continue
		}
		g.Expect(err).To(MatchError(errReplaced))
		next.Close()
	}
	g.Expect(used.wires).To(BeEmpty())
	g.Expect(used.permits.inUse()).To(BeZero())
	g.Eventually(clientsOf).WithArguments(t, server).WithTimeout(timeout).Should(BeZero())
}

// changing makes all changes of a server at the same time, those of its keeper one after the other. It returns the
// clients that callers got.
func changing(t *testing.T, s *server, changes int) map[*redis.Client]bool {
	t.Helper()
	var mu sync.Mutex
	seen := map[*redis.Client]bool{}
	var running sync.WaitGroup
	for _, change := range []func(){
		func() { s.closeDatabase(rand.IntN(3)) },
		s.closeClients,
		func() { s.follow([]string{"192.0.2.1"}) },
		func() {
			inUse, _ := s.current()
			s.markDown(inUse, errRefusedConnection)
		},
		func() {
			client, _ := s.admit(rand.IntN(3))
			if client == nil {
				client, _ = s.firstClient(t.Context(), 0)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[client] = true
		},
		func() {
			inUse, down := s.current()
			select {
			case <-s.fell:
				s.stillDown(errRefusedConnection)
				s.revoke(inUse)
				s.markUp(newCredentials())
			default:
				if retired, done := s.replace(inUse, newCredentials()); done {
					retired.close()
				} else if down == nil && inUse == nil {
					t.Error("the server is up without credentials")
				}
			}
		},
	} {
		running.Go(func() {
			for range changes {
				change()
			}
		})
	}
	running.Wait()
	delete(seen, nil)
	return seen
}

// Whatever changes at the same time, the keeper learns that the server is down, and no client is left open.
func TestAServerChangesInAllWaysAtOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for range 50 {
		s := newTestServer(newCredentials())
		seen := changing(t, s, 100)
		_, down := s.current()
		g.Expect(s.fell).To(HaveLen(map[bool]int{true: 1, false: 0}[down != nil]))
		s.end()
		for client := range seen {
			g.Expect(client.Ping(t.Context()).Err()).To(MatchError(redis.ErrClosed))
		}
	}
}

// A server that fails has one keeper: also if it failed before the pool was started, or if the pool forgets it and gets
// to know it again while it is down.
func TestEachServerHasAKeeper(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var probes, restored atomic.Int32
		scripted := redistest.NewPiped(redistest.Replies{}.Script)
		pool := NewPool(Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			probes.Add(1)
			return scripted.Dial(ctx, network, address)
		}})
		pool.OnRestored(func(auth.Endpoint) { restored.Add(1) })
		conn := pool.Conn(somewhere, 0)
		fail := func() { g.Expect(conn.Do(t.Context(), answer(errRefused))).NotTo(Succeed()) }
		fail()
		var running sync.WaitGroup
		running.Go(func() { _ = pool.Start(t.Context()) })
		t.Cleanup(running.Wait)
		g.Expect(conn.WaitUp(t.Context())).To(Succeed())
		for round := range 20 {
			time.Sleep(time.Minute)
			g.Expect(restored.Load()).To(BeEquivalentTo(round + 1))
			g.Expect(probes.Load()).To(BeEquivalentTo(round + 1))
			g.Expect(pool.Claim("team", "a", somewhere, 0)).To(Succeed())
			fail()
			pool.Release("team", "a")
			g.Expect(pool.Claim("team", "a", somewhere, 0)).To(Succeed())
			fail()
			g.Expect(conn.WaitUp(t.Context())).To(Succeed())
		}
	})
}

// A server that is up and down every 50 ms is dialed some times in a second, and used soon after it stays up.
func TestAServerThatFlaps(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var down atomic.Bool
		var dials atomic.Int32
		scripted := redistest.NewPiped(func([]string) string {
			if down.Load() {
				return redistest.HangUp
			}
			return redistest.Usual
		})
		conn := start(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			if down.Load() {
				return nil, errRefused
			}
			return scripted.Dial(ctx, network, address)
		}, roomy).Conn(somewhere, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var users sync.WaitGroup
		users.Go(func() {
			for ; ctx.Err() == nil; <-time.After(50 * time.Millisecond) {
				down.Store(!down.Load())
			}
			down.Store(false)
		})
		for range 4 {
			users.Go(func() {
				for ; ctx.Err() == nil; <-time.After(10 * time.Millisecond) {
					_, _ = readLength(ctx, conn)
				}
			})
		}
		users.Wait()
		g.Expect(dials.Load()).To(BeNumerically("<=", 60*15))
		ended := time.Now()
		g.Expect(conn.WaitUp(t.Context())).To(Succeed())
		g.Expect(readLength(t.Context(), conn)).Error().NotTo(HaveOccurred())
		g.Expect(time.Since(ended)).To(BeNumerically("<=", longestDelay))
	})
}

// hangingSecrets answers no read.
type hangingSecrets struct{}

func (hangingSecrets) Read(ctx context.Context, _, _ string) (map[string][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// While the API server does not answer, many servers wait for their turn to read their Secrets. One that fails
// meanwhile is tried again as soon as others are.
func TestSecretsThatAreNotReadHoldUpNoProbe(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		scripted := redistest.NewPiped(redistest.Replies{}.Script)
		// The race detector of Go 1.26 crashes if several goroutines of a bubble find an expired timer when they select. The
		// ticks of keepers that have waited for their Secrets would be such timers.
		withoutSweeps := func(p *Pool) { p.timing.sweep = time.Hour }
		pool := start(t, scripted.Dial, withSecrets(hangingSecrets{}), withoutSweeps)
		const many = 400
		defer useFirstPasswords(t, pool, many)()
		time.Sleep(time.Minute)
		for endpoint, failed := range pool.servers {
			inUse, _ := failed.current()
			failed.markDown(inUse, errRefusedConnection)
			began := time.Now()
			g.Expect(pool.Conn(endpoint, 0).WaitUp(t.Context())).To(Succeed())
			g.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
		}
	})
}

// A server that was forgotten has no keeper any longer, also while the API server does not answer.
func TestAForgottenServerDoesNotWaitToReadSecrets(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		pool := NewPool(Options{})
		for range renewalsAtOnce {
			pool.renewals <- struct{}{}
		}
		endpoint := somewhere
		endpoint.Password, endpoint.Namespace = password, namespace
		server := must.Get(pool.acquire(endpoint))(g)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			pool.keep(t.Context(), server)
		}()
		time.Sleep(time.Hour)
		server.end()
		synctest.Wait()
		g.Expect(ended).To(BeClosed())
	})
}
