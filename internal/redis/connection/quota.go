// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Claim notes that an owner, which belongs to a tenant, uses this database of this endpoint, and
// none that it claimed before. The error is an [*failure.Error] of the reason TooManyServers if
// the tenant's owners claim too many; then the owner claims nothing.
func (p *Pool) Claim(tenant, name string, e auth.Endpoint, database int) error {
	by, wanted := claimant{tenant, name}, serverDatabase{e, database}
	p.mu.Lock()
	p.claiming = true
	if p.quota.has(by, wanted) {
		p.mu.Unlock()
		return nil
	}
	given, had := p.quota.remove(by)
	err := p.quota.add(by, wanted)
	end := p.drop(given, had)
	p.mu.Unlock()
	end()
	return err
}

// Release ends the claim of an owner, if it has one. What nobody claims any more is closed.
func (p *Pool) Release(tenant, name string) {
	p.mu.Lock()
	end := p.drop(p.quota.remove(claimant{tenant, name}))
	p.mu.Unlock()
	end()
}

// drop forgets a server that somebody had, unless it is still claimed. It is called with the lock
// held, and what it returns without.
func (p *Pool) drop(given serverDatabase, had bool) (end func()) {
	server := p.servers[given.endpoint]
	switch {
	case !had || server == nil || p.quota.claimed(given):
		return func() { /* nothing to end */ }
	case p.quota.endpointClaimed(given.endpoint):
		return func() { server.closeDatabase(given.number) }
	default:
		delete(p.servers, given.endpoint)
		return server.end
	}
}

// serverDatabase is what is claimed: a database of an endpoint.
type serverDatabase struct {
	endpoint auth.Endpoint
	number   int
}

// claimant is who claims: an owner, which belongs to a tenant.
type claimant struct{ tenant, name string }

// serverQuota records which claimant uses which server, at most one each, and limits how many one tenant uses. The lock
// of the pool guards it.
type serverQuota struct {
	perTenant  int // the limit; 0 is none
	byClaimant map[claimant]serverDatabase
	// tenants counts the owners of each tenant that claim a server, and users all of them.
	tenants map[string]map[serverDatabase]int
	users   map[serverDatabase]int
	// endpoints counts the servers of each endpoint that are claimed.
	endpoints map[auth.Endpoint]int
}

// newServerQuota returns a quota of perTenant servers for the owners of one tenant together; 0 is no limit.
func newServerQuota(perTenant int) *serverQuota {
	return &serverQuota{
		perTenant: perTenant, byClaimant: map[claimant]serverDatabase{},
		tenants: map[string]map[serverDatabase]int{}, users: map[serverDatabase]int{}, endpoints: map[auth.Endpoint]int{},
	}
}

// has reports whether a claimant uses this server.
func (q *serverQuota) has(by claimant, claimed serverDatabase) bool {
	now, ok := q.byClaimant[by]
	return ok && now == claimed
}

// add notes the claim of a claimant that has none. The error, an [*failure.Error], is for one too
// many of its tenant; then it claims nothing.
func (q *serverQuota) add(by claimant, wanted serverDatabase) error {
	of := q.tenants[by.tenant]
	if q.perTenant > 0 && of[wanted] == 0 && len(of) >= q.perTenant {
		return tooManyServers(by.tenant, q.perTenant)
	}
	if of == nil {
		of = map[serverDatabase]int{}
		q.tenants[by.tenant] = of
	}
	q.byClaimant[by] = wanted
	of[wanted]++
	q.users[wanted]++
	if q.users[wanted] == 1 {
		q.endpoints[wanted.endpoint]++
	}
	return nil
}

func tooManyServers(tenant string, limit int) *failure.Error {
	return &failure.Error{
		Reason: failure.ReasonTooManyServers,
		Message: "The namespace uses as many Redis servers and databases as it may. Use fewer of them, " +
			"or have an administrator raise --max-redis-servers-per-namespace.",
		Err: fmt.Errorf("%s claims %d servers already", tenant, limit),
	}
}

// remove ends the claim of a claimant, and returns what that was, if there was one.
func (q *serverQuota) remove(by claimant) (given serverDatabase, had bool) {
	given, had = q.byClaimant[by]
	if !had {
		return serverDatabase{}, false
	}
	delete(q.byClaimant, by)
	of := q.tenants[by.tenant]
	decrement(of, given)
	if len(of) == 0 {
		delete(q.tenants, by.tenant)
	}
	if decrement(q.users, given) {
		decrement(q.endpoints, given.endpoint)
	}
	return given, true
}

// decrement counts one less, and reports whether none is left.
func decrement[K comparable](counts map[K]int, key K) (none bool) {
	counts[key]--
	if counts[key] > 0 {
		return false
	}
	delete(counts, key)
	return true
}

// claimed reports whether anybody claims a server.
func (q *serverQuota) claimed(server serverDatabase) bool { return q.users[server] > 0 }

// endpointClaimed reports whether anybody claims any database of an endpoint.
func (q *serverQuota) endpointClaimed(e auth.Endpoint) bool { return q.endpoints[e] > 0 }
