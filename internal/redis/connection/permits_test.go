// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// However many calls there are to however many databases, and whatever else is open, a server has only so many
// connections.
func TestAServerHasFewConnections(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	pool := startReal(t)
	e := auth.Endpoint{Address: server.Addr()}
	var most int
	stop := keepUsing(t, 1, func() {
		most = max(most, pool.Open()[server.Addr()])
	})
	first := must.Get(pool.Conn(e, 0).OpenWire(t.Context()))(g)
	defer first.Close()
	var readers sync.WaitGroup
	for i := range atOnce {
		readers.Go(func() {
			for range 20 {
				length(t, pool.Conn(e, i%5))
			}
		})
	}
	readers.Wait()
	var open []*Wire
	for database := range 4 {
		wire, err := pool.Conn(e, database).OpenWire(t.Context())
		g.Expect(err).NotTo(HaveOccurred(), "database %d", database)
		open = append(open, wire)
		length(t, pool.Conn(e, database))
	}
	_, err := pool.Conn(e, 4).OpenWire(t.Context())
	g.Expect(err).To(MatchError(failure.ErrBusy), "one connection is left, for reads")
	for database := range 5 {
		length(t, pool.Conn(e, database))
	}
	stop()
	g.Expect(most).To(BeNumerically("<=", DefaultConnections))
	g.Eventually(clientsOf).WithArguments(t, server).WithTimeout(timeout).Should(BeNumerically("<=", DefaultConnections),
		"the server notices later that connections were closed")
	g.Expect(pool.Open()).To(Equal(map[string]int{server.Addr(): DefaultConnections}))
	open[0].Close()
	openWire(t, pool.Conn(e, 4)).Close()
	for _, each := range open {
		each.Close()
	}
}

// hold has so many calls use a connection each at the same moment.
func hold(t *testing.T, conn *Conn, calls int) {
	t.Helper()
	g := NewWithT(t)
	var all sync.WaitGroup
	begun, goOn := make(chan struct{}, calls), make(chan struct{})
	for range calls {
		all.Go(func() {
			g.Expect(conn.Do(t.Context(), func(ctx context.Context, client Client) error {
				only := client.Conn()
				defer func() { _ = only.Close() }()
				err := only.Ping(ctx).Err()
				begun <- struct{}{}
				<-goOn
				return err
			})).To(Succeed())
		})
	}
	for range calls {
		<-begun
	}
	close(goOn)
	all.Wait()
}

// After a burst, the server has one connection for reads.
func TestIdleConnectionsAreGivenBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	hold(t, conn, DefaultConnections-reservedConnections)
	g.Expect(clientsOf(t, server)).To(Equal(DefaultConnections - reservedConnections))
	g.Eventually(clientsOf).WithArguments(t, server).WithTimeout(timeout).Should(Equal(1))
	g.Expect(length(t, conn)).To(BeZero())
	g.Expect(clientsOf(t, server)).To(BeNumerically("<=", 2), "no call meets one that was closed")
}

// If the server has too many clients, one connection for reads is enough.
func TestAFullServerGetsConnectionsBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, conn := served(t)
	hold(t, conn, DefaultConnections-reservedConnections)
	g.Expect(server.Client().ConfigSet(t.Context(), "maxclients", "1").Err()).To(Succeed())
	_, err := conn.OpenWire(t.Context())
	g.Expect(failure.Classify(err).Message).To(ContainSubstring("accepts no more clients"))
	g.Expect(clientsOf(t, server)).To(Equal(1))
	g.Expect(length(t, conn)).To(BeZero())
}

func TestPermits(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		s := newPermits(DefaultConnections)
		take := func(is purpose, database int) (*permit, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return s.acquire(ctx, is, database, false)
		}
		var reads []*permit
		for range DefaultConnections - reservedConnections {
			read := must.Get(take(forReads, 0))(g)
			reads = append(reads, read)
		}
		began := time.Now()
		g.Expect(take(forReads, 0)).Error().To(MatchError(failure.ErrBusy))
		g.Expect(time.Since(began)).To(BeZero(), "calls wait for the connections that are there")
		messages := must.Get(take(forMessages, 0))(g)
		g.Expect(take(forMessages, 1)).Error().NotTo(HaveOccurred())

		g.Expect(take(forReads, 1)).Error().To(MatchError(failure.ErrBusy))
		g.Expect(time.Since(began)).To(Equal(time.Second), "another database waits")
		waited := make(chan error)
		go func() {
			_, err := take(forReads, 1)
			waited <- err
		}()
		synctest.Wait()
		g.Expect(reads[0].use()).To(MatchError(failure.ErrBusy), "it makes room")
		reads[0].release()
		g.Expect(<-waited).To(Succeed())
		g.Expect(reads[1].use()).To(Succeed())
		_, err := s.acquire(t.Context(), forMessages, 3, true)
		g.Expect(err).NotTo(HaveOccurred(), "one that replaces another comes on top")
		messages.release()
		messages.release()
		g.Expect(s.inUse()).To(Equal(6))
		g.Expect(s.waiting).To(BeEmpty())
	})
}
