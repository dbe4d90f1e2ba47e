// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// lookUpTimeout bounds one question to DNS, and lookUpsAtOnce how many are open.
	lookUpTimeout = 5 * time.Second
	lookUpsAtOnce = 8
)

// resolver looks up the addresses of a host name. [net.Resolver] does.
type resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// dial dials the address that the host name was found at, and the name itself if there is
// none: what is read and what is subscribed to must be the same server, though a name may
// have several.
func (p *peer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	pinned := p.pinned
	p.mu.Unlock()
	if pinned.IsValid() {
		address = pinned.String()
	}
	conn, err := p.dialer(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !pinned.IsValid() && !p.pinned.IsValid() {
		p.pinned = remoteOf(conn)
	}
	return conn, nil
}

// remoteOf is the address of the other end, invalid where that has no IP address.
func remoteOf(conn net.Conn) netip.AddrPort {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
}

// followNames looks every now and then whether the names of endpoints point elsewhere,
// until ctx is done. A server that was replaced may live on, and would never end its
// connections.
func (p *Pool) followNames(ctx context.Context) {
	ticker := time.NewTicker(p.timing.lookUp)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var group errgroup.Group
		group.SetLimit(lookUpsAtOnce)
		for _, named := range p.named() {
			group.Go(func() error {
				p.follow(ctx, named)
				return nil
			})
		}
		_ = group.Wait()
	}
}

// named are the peers in use whose endpoint has a host name.
func (p *Pool) named() []*peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*peer
	for endpoint, candidate := range p.peers {
		if _, err := netip.ParseAddrPort(endpoint.Address); err != nil && candidate.isPinned() {
			found = append(found, candidate)
		}
	}
	return found
}

func (p *peer) isPinned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pinned.IsValid()
}

// follow ends the connections of a peer whose name points elsewhere. No answer is no reason
// to end anything.
func (p *Pool) follow(ctx context.Context, named *peer) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(named.endpoint.Address)
	if err != nil {
		return
	}
	addresses, err := p.resolver.LookupHost(ctx, host)
	if err != nil || len(addresses) == 0 {
		return
	}
	if named.move(addresses, p.timing.restAfterMove) {
		p.log.Info("The name of a Redis server points elsewhere", "endpoint", named.endpoint.String())
	}
}

// move ends the connections that lead to none of the addresses, and reports whether there
// were any to the address in use. That it is missing once says little: some name servers
// give a few of many addresses, in turns. The same answer has to come twice, and a move is
// not soon followed by another one.
func (p *peer) move(addresses []string, restAfterMove time.Duration) (moved bool) {
	slices.Sort(addresses)
	p.mu.Lock()
	if !p.pinned.IsValid() { // It went down a moment ago.
		p.mu.Unlock()
		return false
	}
	before := p.answer
	p.answer = nil
	if !slices.ContainsFunc(addresses, p.leadsTo) {
		p.answer = addresses
		moved = slices.Equal(before, addresses) && time.Since(p.movedAt) >= restAfterMove
	}
	if moved {
		p.pinned, p.movedAt = netip.AddrPort{}, time.Now()
	}
	astray := p.astray()
	p.mu.Unlock()
	if moved {
		p.closeClient()
	}
	for _, subscribed := range astray {
		subscribed.Close()
	}
	return moved
}

// astray are the connections for subscriptions that lead elsewhere than to the address in
// use. The lock must be held.
func (p *peer) astray() []*PubSub {
	var found []*PubSub
	for subscribed := range p.pubSubs {
		if subscribed.remote != p.pinned {
			found = append(found, subscribed)
		}
	}
	return found
}

// leadsTo says whether the address is the one in use.
func (p *peer) leadsTo(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Unmap() == p.pinned.Addr()
}
