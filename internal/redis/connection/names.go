// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/internal/hostname"
)

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
		for _, named := range p.named() {
			group.Go(func() error {
				if named.follow(ctx, p.resolver, p.timing.restAfterMove) {
					p.log.Info("The name of a Redis server points elsewhere", "endpoint", named.endpoint.String())
				}
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
		if _, err := netip.ParseAddrPort(endpoint.Address); err != nil && candidate.pin.Address().IsValid() {
			found = append(found, candidate)
		}
	}
	return found
}

// follow ends the connections that lead elsewhere than the name does, and reports whether
// it was found to have moved.
func (p *peer) follow(ctx context.Context, resolver hostname.Resolver, restAfterMove time.Duration) (moved bool) {
	moved = p.pin.LookUp(ctx, resolver, p.endpoint.Address, restAfterMove)
	inUse := p.pin.Address()
	if !moved && !inUse.IsValid() { // It went down a moment ago.
		return false
	}
	if moved {
		p.closeClients()
	}
	p.closeAstray(inUse)
	return moved
}
