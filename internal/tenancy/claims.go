// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"fmt"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Server is what is claimed: a database of an endpoint.
type Server struct {
	Endpoint auth.Endpoint
	Database int
}

// Owner is who claims. It belongs to a tenant.
type Owner struct{ Tenant, Name string }

// Claims say which owner uses which server, at most one each. They are not safe for concurrent use.
type Claims struct {
	perTenant int // the limit; 0 is none
	byOwner   map[Owner]Server
	// tenants counts the owners of each tenant that claim a server, and users all of them.
	tenants map[string]map[Server]int
	users   map[Server]int
	// endpoints counts the servers of each endpoint that are claimed.
	endpoints map[auth.Endpoint]int
}

// NewClaims returns no claims, of which the owners of one tenant may have so many servers together.
// 0 is no limit.
func NewClaims(perTenant int) *Claims {
	return &Claims{
		perTenant: perTenant, byOwner: map[Owner]Server{},
		tenants: map[string]map[Server]int{}, users: map[Server]int{}, endpoints: map[auth.Endpoint]int{},
	}
}

// Has reports whether an owner claims this server.
func (c *Claims) Has(by Owner, claimed Server) bool {
	now, ok := c.byOwner[by]
	return ok && now == claimed
}

// Add notes the claim of an owner that has none. The error, an [*failure.Error], is for one too
// many of its tenant; then it claims nothing.
func (c *Claims) Add(by Owner, wanted Server) error {
	of := c.tenants[by.Tenant]
	if c.perTenant > 0 && of[wanted] == 0 && len(of) >= c.perTenant {
		return tooManyServers(by.Tenant, c.perTenant)
	}
	if of == nil {
		of = map[Server]int{}
		c.tenants[by.Tenant] = of
	}
	c.byOwner[by] = wanted
	of[wanted]++
	c.users[wanted]++
	if c.users[wanted] == 1 {
		c.endpoints[wanted.Endpoint]++
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

// Remove ends the claim of an owner, and returns what that was, if there was one.
func (c *Claims) Remove(by Owner) (given Server, had bool) {
	given, had = c.byOwner[by]
	if !had {
		return Server{}, false
	}
	delete(c.byOwner, by)
	of := c.tenants[by.Tenant]
	decrement(of, given)
	if len(of) == 0 {
		delete(c.tenants, by.Tenant)
	}
	if decrement(c.users, given) {
		decrement(c.endpoints, given.Endpoint)
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

// Claimed reports whether anybody claims a server.
func (c *Claims) Claimed(server Server) bool { return c.users[server] > 0 }

// EndpointClaimed reports whether anybody claims any database of an endpoint.
func (c *Claims) EndpointClaimed(e auth.Endpoint) bool { return c.endpoints[e] > 0 }
