// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// lookUpTimeout is the timeout of one DNS look-up.
const lookUpTimeout = 5 * time.Second

// hostLookup resolves host names, as [net.Resolver] does.
type hostLookup interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// pin holds the one address of a host name that all connections to a server use. A name may resolve to several servers,
// or to others later, but reads and subscriptions must use the same one. The first successful dial sets it. The zero
// value has no address. It is safe for concurrent use.
type pin struct {
	mu sync.Mutex
	// address is the address in use. It is invalid if there is none.
	address netip.AddrPort
	// answer is the last answer of DNS, if the address in use was not in it.
	answer []string
	// movedAt is when the name was last found to resolve to other addresses.
	movedAt time.Time
}

// Dial dials the address in use. If there is none, it dials the name, which is host:port, and keeps the address that it
// connected to.
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

// Address returns the address in use. It is invalid if there is none.
func (p *pin) Address() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// Release forgets the address, so that the next dial resolves the name again.
func (p *pin) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address = netip.AddrPort{}
}

// LookUp resolves the name, which is host:port. If the address in use is no longer among the answers, it forgets the
// address and returns true. An error of DNS changes nothing: the server may still work.
//
// Some name servers return only a few of many addresses, in rotation. So the address must be missing from two equal
// answers in a row, and moves are at least rest apart.
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

// compare compares the address in use with an answer of DNS.
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

// remoteOf returns the address that a connection leads to. It is invalid if that is not an IP address.
func remoteOf(conn net.Conn) netip.AddrPort {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
}

// lookUpsAtOnce is the number of DNS look-ups of one round at the same time.
const lookUpsAtOnce = 8

// followNames periodically resolves the host names in use, until ctx is done. This is needed because a server that was
// replaced may keep running, and then its connections never end. A round does not wait for the names that an earlier
// one still looks up: somebody's name server may not answer.
func (p *Pool) followNames(ctx context.Context) {
	ticker := time.NewTicker(p.timing.lookUp)
	defer ticker.Stop()
	var rounds sync.WaitGroup
	defer rounds.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		due := p.dueForLookUp()
		rounds.Go(func() { p.lookUp(ctx, due) })
	}
}

// lookUp resolves the host names of servers.
func (p *Pool) lookUp(ctx context.Context, due []*server) {
	var round errgroup.Group
	round.SetLimit(lookUpsAtOnce)
	for _, server := range due {
		round.Go(func() error {
			began := time.Now()
			defer func() {
				server.lookedUpInVain.Store(time.Since(began) >= lookUpTimeout)
				server.lookingUp.Store(false)
			}()
			if server.follow(ctx, p.dns, p.timing.restAfterMove) {
				p.log.Info("The host name of a Redis server resolves to another address now", "endpoint", server.endpoint.String())
			}
			return nil
		})
	}
	_ = round.Wait()
}

// dueForLookUp returns the servers in use whose address is a host name, except for those whose name is being looked up:
// first one of each tenant, then a second one, and so on, then those that only a deployment has named, one of each
// deployment at a time. Names whose last look-up had no answer come at the end.
func (p *Pool) dueForLookUp() []*server {
	found, claimed := p.named()
	found = slices.DeleteFunc(found, func(of *server) bool {
		return !of.pin.Address().IsValid() || of.lookingUp.Swap(true)
	})
	named := map[string]int{}
	turns := make(map[*server]int, len(found))
	for _, server := range found {
		turn, ok := claimed[server.endpoint]
		if !ok {
			turn = len(claimed) + named[server.endpoint.Deployment]
			named[server.endpoint.Deployment]++
		}
		if server.lookedUpInVain.Load() {
			turn += len(claimed) + len(found)
		}
		turns[server] = turn
	}
	slices.SortFunc(found, func(a, b *server) int { return cmp.Compare(turns[a], turns[b]) })
	return found
}

// named returns the servers whose address is a host name, and the turns of the endpoints that are claimed. Reconciles
// wait meanwhile, so it does no more than that.
func (p *Pool) named() (found []*server, turns map[auth.Endpoint]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, server := range p.servers {
		if server.named {
			found = append(found, server)
		}
	}
	if len(found) > 0 {
		turns = p.quota.turns()
	}
	return found, turns
}

// follow closes the connections to other addresses than the one in use, and reports whether the name has moved.
func (s *server) follow(ctx context.Context, dns hostLookup, restAfterMove time.Duration) (moved bool) {
	moved = s.pin.LookUp(ctx, dns, s.endpoint.Address, restAfterMove)
	inUse := s.pin.Address()
	if !moved && !inUse.IsValid() { // The server went down meanwhile.
		return false
	}
	if moved {
		s.closeClients()
	}
	s.wires.closeExcept(inUse)
	return moved
}
