// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/tenancy"
)

// Claim notes that an owner, which belongs to a tenant, uses this database of this endpoint, and
// none that it claimed before. The error is an [*rediserror.Error] of the reason TooManyServers if
// the tenant's owners claim too many; then the owner claims nothing.
func (p *Pool) Claim(tenant, name string, e auth.Endpoint, database int) error {
	by, wanted := tenancy.Owner{Tenant: tenant, Name: name}, tenancy.Server{Endpoint: e, Database: database}
	p.mu.Lock()
	p.claiming = true
	if p.claims.Has(by, wanted) {
		p.mu.Unlock()
		return nil
	}
	given, had := p.claims.Remove(by)
	err := p.claims.Add(by, wanted)
	end := p.drop(given, had)
	p.mu.Unlock()
	end()
	return err
}

// Release ends the claim of an owner, if it has one. What nobody claims any more is closed.
func (p *Pool) Release(tenant, name string) {
	p.mu.Lock()
	end := p.drop(p.claims.Remove(tenancy.Owner{Tenant: tenant, Name: name}))
	p.mu.Unlock()
	end()
}

// drop forgets a server that somebody had, unless it is still claimed. It is called with the lock
// held, and what it returns without.
func (p *Pool) drop(given tenancy.Server, had bool) (end func()) {
	dropped := p.peers[given.Endpoint]
	switch {
	case !had || dropped == nil || p.claims.Claimed(given):
		return func() { /* nothing to end */ }
	case p.claims.EndpointClaimed(given.Endpoint):
		return func() { dropped.closeDatabase(given.Database) }
	default:
		delete(p.peers, given.Endpoint)
		return dropped.end
	}
}
