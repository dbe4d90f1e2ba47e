// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// lookUpTimeout bounds one question to DNS.
const lookUpTimeout = 5 * time.Second

// hostLookup looks up the addresses of a host name. [net.Resolver] does.
type hostLookup interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// pin is the one address of a name that is in use. A name may stand for several servers, and for others
// tomorrow, but reads and subscriptions must reach the same one. The first dial to succeed finds it. The zero
// value has none. It is safe for concurrent use.
type pin struct {
	mu sync.Mutex
	// address is the one in use; invalid while there is none.
	address netip.AddrPort
	// answer is what DNS said last, if the address was not in it.
	answer []string
	// movedAt is when the name was last found to point elsewhere.
	movedAt time.Time
}

// Dial dials the address in use. If there is none, it dials the name itself, which is host:port,
// and the address that the connection leads to is in use from then on.
func (p *pin) Dial(
	ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), network, name string,
) (net.Conn, error) {
	inUse := p.Address()
	if inUse.IsValid() {
		return dial(ctx, network, inUse.String())
	}
	conn, err := dial(ctx, network, name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.address.IsValid() {
		p.address = remoteOf(conn)
	}
	return conn, nil
}

// Address is the one in use. It is invalid if there is none.
func (p *pin) Address() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// Release has the next dial find an address anew.
func (p *pin) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address = netip.AddrPort{}
}

// LookUp asks where the name, which is host:port, points now. It releases the address in use and
// returns true if that is elsewhere. No answer is no reason to leave a server that works.
//
// That the address is missing once says little: some name servers give a few of many addresses,
// in turns. So the same answer has to come twice. And one move is not followed by another one
// within rest.
func (p *pin) LookUp(ctx context.Context, dns hostLookup, name string, rest time.Duration) (moved bool) {
	host, _, err := net.SplitHostPort(name)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	answer, err := dns.LookupHost(ctx, host)
	if err != nil || len(answer) == 0 {
		return false
	}
	return p.compare(answer, rest)
}

// compare holds the address in use against an answer of DNS.
func (p *pin) compare(answer []string, rest time.Duration) (moved bool) {
	slices.Sort(answer)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.address.IsValid() {
		return false
	}
	before := p.answer
	p.answer = nil
	if slices.ContainsFunc(answer, p.isInUse) {
		return false
	}
	p.answer = answer
	if !slices.Equal(before, answer) || time.Since(p.movedAt) < rest {
		return false
	}
	p.address, p.movedAt = netip.AddrPort{}, time.Now()
	return true
}

func (p *pin) isInUse(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Unmap() == p.address.Addr()
}

// remoteOf is the address of the other end. It is invalid where that has no IP address.
func remoteOf(conn net.Conn) netip.AddrPort {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
}

// lookUpsAtOnce is how many questions to DNS are open at the same time.
const lookUpsAtOnce = 8

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
		for _, server := range p.named() {
			group.Go(func() error {
				if server.follow(ctx, p.dns, p.timing.restAfterMove) {
					p.log.Info("The name of a Redis server points elsewhere", "endpoint", server.endpoint.String())
				}
				return nil
			})
		}
		_ = group.Wait()
	}
}

// named are the servers in use whose endpoint has a host name.
func (p *Pool) named() []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*server
	for endpoint, server := range p.servers {
		if _, err := netip.ParseAddrPort(endpoint.Address); err != nil && server.pin.Address().IsValid() {
			found = append(found, server)
		}
	}
	return found
}

// follow ends the connections that lead elsewhere than the name does, and reports whether
// it was found to have moved.
func (s *server) follow(ctx context.Context, dns hostLookup, restAfterMove time.Duration) (moved bool) {
	moved = s.pin.LookUp(ctx, dns, s.endpoint.Address, restAfterMove)
	inUse := s.pin.Address()
	if !moved && !inUse.IsValid() { // It went down a moment ago.
		return false
	}
	if moved {
		s.closeClients()
	}
	s.pubSubs.closeAstray(inUse)
	return moved
}
