// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"maps"
	"slices"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Claim records that an owner, which belongs to a tenant, uses this database of the endpoint, and no longer the one
// that it claimed before. The error is a [*failure.Error] with the reason TooManyServers if the owners of the tenant
// would claim too many databases; the owner then claims none.
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

// Release ends the claim of an owner, if it has one. Connections that have no claim any longer are closed.
func (p *Pool) Release(tenant, name string) {
	p.mu.Lock()
	end := p.drop(p.quota.remove(claimant{tenant, name}))
	p.mu.Unlock()
	end()
}

// drop removes what a claimant used, unless there are other claims for it. Call it with the lock held, and the returned
// function without it.
func (p *Pool) drop(given serverDatabase, had bool) (end func()) {
	if !had || p.quota.claimed(given) {
		return func() { /* nothing to close */ }
	}
	servers := p.serversOf(given.endpoint, deploymentName(given.endpoint))
	if p.quota.endpointClaimed(given.endpoint) {
		return func() {
			for _, server := range servers {
				server.closeDatabase(given.number)
			}
		}
	}
	for _, server := range servers {
		p.forget(server)
	}
	return func() {
		for _, server := range servers {
			server.end()
		}
	}
}

// serversOf returns the servers of an endpoint that was claimed: itself, or those of the deployment with this name. Call
// it with the lock held. It does not look at the servers of others: each reconcile may need it.
func (p *Pool) serversOf(claimed auth.Endpoint, deployment string) (found []*server) {
	if deployment != "" {
		return slices.Collect(maps.Values(p.deployments[deployment]))
	}
	if server := p.servers[claimed]; server != nil {
		found = append(found, server)
	}
	return found
}

// deploymentName returns what the servers of a deployment have as its name; empty for a server that the user names.
func deploymentName(e auth.Endpoint) string {
	if e.Mode == auth.ModeStandalone {
		return ""
	}
	return e.String()
}

// remember adds a server to the pool. Call it with the lock held.
func (p *Pool) remember(of *server) {
	p.servers[of.endpoint] = of
	name := of.endpoint.Deployment
	if name == "" {
		return
	}
	if p.deployments[name] == nil {
		p.deployments[name] = map[auth.Endpoint]*server{}
	}
	p.deployments[name][of.endpoint] = of
}

// forget removes a server from the pool. Call it with the lock held.
func (p *Pool) forget(of *server) {
	delete(p.servers, of.endpoint)
	name := of.endpoint.Deployment
	delete(p.deployments[name], of.endpoint)
	if len(p.deployments[name]) == 0 {
		delete(p.deployments, name)
	}
}

// serverDatabase is a database of an endpoint.
type serverDatabase struct {
	endpoint auth.Endpoint
	number   int
}

// claimant is an owner and its tenant.
type claimant struct{ tenant, name string }

// serverQuota records which database of a server each claimant uses, and limits their number per tenant. The lock of
// the pool guards it.
type serverQuota struct {
	perTenant  int // 0 means no limit
	byClaimant map[claimant]serverDatabase
	// tenants has, for each tenant, the number of owners that claim a database, and users the number of all owners that
	// do.
	tenants map[string]map[serverDatabase]int
	users   map[serverDatabase]int
	// endpoints has, for each endpoint, the number of its databases with a claim. deployments has the names of those that
	// are deployments.
	endpoints   map[auth.Endpoint]int
	deployments map[string]struct{}
}

// newServerQuota returns a serverQuota with a limit of perTenant databases for the owners of one tenant together. 0
// means no limit.
func newServerQuota(perTenant int) *serverQuota {
	return &serverQuota{
		perTenant: perTenant, byClaimant: map[claimant]serverDatabase{},
		tenants: map[string]map[serverDatabase]int{}, users: map[serverDatabase]int{}, endpoints: map[auth.Endpoint]int{},
		deployments: map[string]struct{}{},
	}
}

// has reports whether the claimant has claimed this database.
func (q *serverQuota) has(by claimant, claimed serverDatabase) bool {
	now, ok := q.byClaimant[by]
	return ok && now == claimed
}

// add adds a claim of a claimant that has none. The error is a [*failure.Error] if its tenant would exceed the limit;
// then nothing is added.
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
		if wanted.endpoint.Mode != auth.ModeStandalone {
			q.deployments[wanted.endpoint.String()] = struct{}{}
		}
	}
	return nil
}

// turns numbers the endpoints of each tenant. An endpoint of several tenants has the lowest of its numbers.
func (q *serverQuota) turns() map[auth.Endpoint]int {
	turns := map[auth.Endpoint]int{}
	for _, of := range q.tenants {
		next := 0
		for used := range of {
			if turn, ok := turns[used.endpoint]; !ok || next < turn {
				turns[used.endpoint] = next
			}
			next++
		}
	}
	return turns
}

func tooManyServers(tenant string, limit int) *failure.Error {
	return &failure.Error{
		Reason: failure.ReasonTooManyServers,
		Message: "The ScaledJobs of this namespace use as many databases of Redis servers as the operator allows per namespace. " +
			"Use fewer, or ask an administrator to raise --max-redis-servers-per-namespace.",
		Err: fmt.Errorf("%s already uses %d databases of Redis servers", tenant, limit),
	}
}

// remove removes the claim of a claimant, if there is one, and returns it.
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
	if decrement(q.users, given) && decrement(q.endpoints, given.endpoint) && given.endpoint.Mode != auth.ModeStandalone {
		delete(q.deployments, given.endpoint.String())
	}
	return given, true
}

// decrement decrements a count, and reports whether it is 0 then.
func decrement[K comparable](counts map[K]int, key K) (none bool) {
	counts[key]--
	if counts[key] > 0 {
		return false
	}
	delete(counts, key)
	return true
}

// claimed reports whether there is a claim for the database.
func (q *serverQuota) claimed(server serverDatabase) bool { return q.users[server] > 0 }

// endpointClaimed reports whether there is a claim for any database of the endpoint, or of the deployment that it
// belongs to.
func (q *serverQuota) endpointClaimed(e auth.Endpoint) bool {
	if e.Deployment != "" {
		_, claimed := q.deployments[e.Deployment]
		return claimed
	}
	return q.endpoints[e] > 0
}
