// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// lookUpTimeout is the timeout of one DNS look-up.
const lookUpTimeout = 5 * time.Second

// hostLookup resolves host names, as [net.Resolver] does.
type hostLookup interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// pin has the one address of a host name that all connections to a server use. A name may resolve to several servers,
// or to others later, but reads and subscriptions must use the same one. The first successful dial sets it.
type pin struct {
	// address is the address in use. It is invalid if there is none.
	address netip.AddrPort
	// answer is the last answer of DNS, if the address in use was not in it.
	answer []string
	// movedAt is when the name was last found to resolve to other addresses.
	movedAt time.Time
}

// accept dials the address in use. If there is none, it dials the name, and keeps the address that it connected to.
func (s *server) accept(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.dial)
	defer cancel()
	inUse := s.addressInUse()
	if inUse.IsValid() {
		return s.dialer(ctx, "tcp", inUse.String())
	}
	conn, err := s.dialer(ctx, "tcp", s.endpoint.Address)
	if err != nil {
		return nil, err
	}
	reached := remoteOf(conn)
	if inUse = s.pinned(reached); inUse == reached {
		return conn, nil
	}
	_ = conn.Close() // Another dial was faster, and has reached another server.
	return s.dialer(ctx, "tcp", inUse.String())
}

// pinned returns the address in use, which is the one that was reached if there was none.
func (s *server) pinned(reached netip.AddrPort) (inUse netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pin.address.IsValid() {
		s.pin.address = reached
	}
	return s.pin.address
}

func (s *server) addressInUse() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pin.address
}

// resolve resolves the name of a server in use. If it has moved, the connections to other addresses are closed. This is
// needed because a server that was replaced may keep running, and then its connections never end. An error of DNS
// changes nothing: the server may still work.
func (s *server) resolve(ctx context.Context, dns hostLookup) (moved bool) {
	host, _, err := net.SplitHostPort(s.endpoint.Address)
	if err != nil || !s.addressInUse().IsValid() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	answer, err := dns.LookupHost(ctx, host)
	if err != nil || len(answer) == 0 {
		return false
	}
	return s.follow(answer)
}

// follow compares the address in use with an answer of DNS.
func (s *server) follow(answer []string) (moved bool) {
	s.mu.Lock()
	if !s.pin.address.IsValid() { // The server went down meanwhile.
		s.mu.Unlock()
		return false
	}
	moved = s.pin.compare(answer, s.timing.moveCooldown)
	var retired clients
	if moved {
		retired = *s.setInUse(s.inUse.credentials)
	}
	wires := s.wiresExcept(s.pin.address)
	s.mu.Unlock()
	retired.close()
	closeWires(wires)
	return moved
}

// compare compares the address in use with an answer of DNS. If the address is no longer in the answer, it forgets it
// and returns true.
//
// Some name servers return only a few of many addresses, in rotation. So the address must be missing from two equal
// answers in a row, and moves are at least a cooldown apart.
func (p *pin) compare(answer []string, cooldown time.Duration) (moved bool) {
	slices.Sort(answer)
	before := p.answer
	p.answer = nil
	if slices.ContainsFunc(answer, p.isInUse) {
		return false
	}
	p.answer = answer
	if !slices.Equal(before, answer) || time.Since(p.movedAt) < cooldown {
		return false
	}
	p.address, p.movedAt = netip.AddrPort{}, time.Now()
	return true
}

func (p *pin) isInUse(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Unmap() == p.address.Addr()
}

// remoteOf returns the address that a connection leads to. It is invalid if that is not an IP address.
func remoteOf(conn net.Conn) netip.AddrPort {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
}
