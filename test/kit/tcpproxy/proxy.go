// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package tcpproxy stands between clients and one TCP server and plays what networks do: it holds bytes back, swallows
// them, delays them, breaks connections off anywhere, and refuses new ones.
package tcpproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

// Direction says which bytes something is about. Directions can be joined by |.
type Direction int

// The directions.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Proxy passes on connections to a server until it is changed. It is safe for concurrent use.
type Proxy struct {
	upstream string
	address  string
	ports    *sandbox.Sandbox // keeps the port while nobody listens on it
	ctx      context.Context  // ends with the proxy
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	links    map[*link]struct{}
	dials    int
	delay    time.Duration
	held     Direction
	spared   string // an IP address
	// released is closed when less is held, and replaced.
	released chan struct{}
}

// Start begins to pass on connections to the server at upstream, a host:port.
func Start(upstream string) (*Proxy, error) {
	ports, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	address, err := ports.Address()
	if err != nil {
		return nil, errors.Join(err, ports.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		upstream: upstream, address: address, ports: ports,
		ctx: ctx, cancel: cancel, links: map[*link]struct{}{}, released: make(chan struct{}),
	}
	if err := p.Pass(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// New is Start for a test, at whose end the proxy is closed.
func New(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	proxy, err := Start(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			tb.Errorf("closing the proxy: %v", err)
		}
	})
	return proxy
}

// Addr returns the host:port that clients dial. It stays the same.
func (p *Proxy) Addr() string { return p.address }

// Dials returns how many connections were accepted so far. Those that were refused, see Refuse, are not among them.
func (p *Proxy) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Open returns how many connections of clients are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Pass ends what Hold, Delay and Refuse began, for all. Connections that were broken or stranded stay so.
func (p *Proxy) Pass() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.delay = 0, 0
	close(p.released)
	p.released = make(chan struct{})
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("listening as a proxy: %w", err)
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

// Hold keeps the bytes of all connections back in these directions, of those to come as well, as a network that is down
// does. No connection breaks, and nothing is lost: after Pass the bytes go on.
func (p *Proxy) Hold(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held |= d
}

// Spare lets the bytes of connections from an IP address pass while those of others are held.
func (p *Proxy) Spare(ip string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spared = ip
	close(p.released)
	p.released = make(chan struct{})
}

// Delay keeps each piece of data back for this long, in both directions.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Refuse has the system refuse new connections. Those that are open stay.
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse()
}

func (p *Proxy) refuse() error {
	if p.listener == nil {
		return nil
	}
	err := p.listener.Close()
	p.listener = nil
	return err
}

// Strand has all bytes of the open connections vanish in these directions for good, the ends of the connections
// included, as if the other side had lost its power or a firewall its memory. New connections are well.
func (p *Proxy) Strand(d Direction) {
	p.each(func(l *link) { l.stranded |= d })
}

// StrandAfter lets this many more bytes reach the client of each open connection
// and has all after them vanish for good.
func (p *Proxy) StrandAfter(bytes int) {
	p.each(func(l *link) { l.last = &lastWords{left: bytes} })
}

// CutAfter lets this many more bytes reach the client of each open connection and then closes it.
func (p *Proxy) CutAfter(bytes int) {
	p.each(func(l *link) { l.last = &lastWords{left: bytes, cut: true} })
}

// Cut closes the open connections in the orderly way.
func (p *Proxy) Cut() { p.each((*link).close) }

// Reset breaks the open connections off: both sides get a RST.
func (p *Proxy) Reset() { p.each((*link).reset) }

func (p *Proxy) each(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

// Close ends the proxy and its connections. Closing again does nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.cancel()
	err := p.refuse()
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return errors.Join(err, p.ports.Close())
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // The listener was closed.
		}
		l := &link{proxy: p, client: client.(*net.TCPConn), ended: make(chan struct{})}
		p.mu.Lock()
		p.dials++
		p.links[l] = struct{}{}
		p.mu.Unlock()
		p.running.Go(func() {
			l.serve()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
	}
}
