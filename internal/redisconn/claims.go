// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"fmt"

	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// server is what is claimed.
type server struct {
	endpoint Endpoint
	database int
}

// owner is who claims.
type owner struct{ tenant, name string }

// claims say who uses which server, and how many do. They are not safe for concurrent use.
type claims struct {
	perTenant int // the limit; 0 is none
	byOwner   map[owner]server
	// tenants counts the owners of each tenant that claim a server, and users all of them.
	tenants map[string]map[server]int
	users   map[server]int
	// endpoints counts the servers of each endpoint that are claimed.
	endpoints map[Endpoint]int
}

func newClaims(perTenant int) claims {
	return claims{
		perTenant: perTenant, byOwner: map[owner]server{},
		tenants: map[string]map[server]int{}, users: map[server]int{}, endpoints: map[Endpoint]int{},
	}
}

// add notes the claim of an owner that has none, unless its tenant would claim too many then.
func (c *claims) add(by owner, wanted server) (admitted bool) {
	of := c.tenants[by.tenant]
	if c.perTenant > 0 && of[wanted] == 0 && len(of) >= c.perTenant {
		return false
	}
	if of == nil {
		of = map[server]int{}
		c.tenants[by.tenant] = of
	}
	c.byOwner[by] = wanted
	of[wanted]++
	c.users[wanted]++
	if c.users[wanted] == 1 {
		c.endpoints[wanted.endpoint]++
	}
	return true
}

// remove ends the claim of an owner. It returns what that was, and whether nobody claims it any
// more.
func (c *claims) remove(by owner) (given server, free bool) {
	given, ok := c.byOwner[by]
	if !ok {
		return server{}, false
	}
	delete(c.byOwner, by)
	of := c.tenants[by.tenant]
	if of[given]--; of[given] == 0 {
		delete(of, given)
	}
	if len(of) == 0 {
		delete(c.tenants, by.tenant)
	}
	if c.users[given]--; c.users[given] > 0 {
		return given, false
	}
	delete(c.users, given)
	if c.endpoints[given.endpoint]--; c.endpoints[given.endpoint] == 0 {
		delete(c.endpoints, given.endpoint)
	}
	return given, true
}

// Claim notes that an owner, which belongs to a tenant, uses this database of this endpoint, and
// none that it claimed before. The error is an [*rediserror.Error] of the reason TooManyServers if
// the tenant's owners claim too many; then the owner claims nothing.
func (p *Pool) Claim(tenant, name string, e Endpoint, database int) error {
	by, wanted := owner{tenant, name}, server{e, database}
	p.mu.Lock()
	p.claiming = true
	if now, ok := p.claims.byOwner[by]; ok && now == wanted {
		p.mu.Unlock()
		return nil
	}
	given, free := p.claims.remove(by)
	admitted := p.claims.add(by, wanted)
	end := p.drop(given, free)
	p.mu.Unlock()
	end()
	if !admitted {
		return tooManyServers(tenant, p.claims.perTenant)
	}
	return nil
}

// Release ends the claim of an owner, if it has one. What nobody claims any more is closed.
func (p *Pool) Release(tenant, name string) {
	p.mu.Lock()
	end := p.drop(p.claims.remove(owner{tenant, name}))
	p.mu.Unlock()
	end()
}

// drop forgets a server if it is free. It is called with the lock held, and what it returns
// without.
func (p *Pool) drop(given server, free bool) (end func()) {
	dropped := p.peers[given.endpoint]
	switch {
	case !free || dropped == nil || p.claims.users[given] > 0:
		return func() { /* nothing to end */ }
	case p.claims.endpoints[given.endpoint] > 0:
		return func() { dropped.closeDatabase(given.database) }
	default:
		delete(p.peers, given.endpoint)
		return dropped.end
	}
}

func tooManyServers(tenant string, limit int) *rediserror.Error {
	return &rediserror.Error{
		Reason: rediserror.ReasonTooManyServers,
		Message: "The namespace uses as many Redis servers and databases as it may. Use fewer of them, " +
			"or have an administrator raise --max-redis-servers-per-namespace.",
		Err: fmt.Errorf("%s claims %d servers already", tenant, limit),
	}
}
