// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Claim records that an owner, which belongs to a tenant, uses this database of the endpoint, and no longer the one
// that it claimed before. The masters are those of a Cluster that have keys of the owner. They count instead of the
// Cluster; none means that they are not known. The error is a [*failure.Error] with the reason TooManyServers if the
// owners of the tenant would claim too many databases; the owner then claims none.
func (p *Pool) Claim(tenant, name string, e auth.Endpoint, database int, masters ...auth.Endpoint) error {
	by, wanted := Owner{tenant, name}, claim{serverDatabase{e, database}, masters}
	p.mu.Lock()
	p.claiming = true
	if p.quota.has(by, wanted) {
		p.mu.Unlock()
		return nil
	}
	given, had := p.quota.remove(by)
	err := p.quota.add(by, wanted)
	end := p.drop(given.serverDatabase, had)
	p.mu.Unlock()
	end()
	return err
}

// Release ends the claim of an owner, if it has one. Connections that have no claim any longer are closed.
func (p *Pool) Release(tenant, name string) {
	p.mu.Lock()
	given, had := p.quota.remove(Owner{tenant, name})
	end := p.drop(given.serverDatabase, had)
	p.mu.Unlock()
	end()
}

// ClaimAgain replaces the masters that owners of a Cluster have claimed, all at the same moment: keys may have moved
// from one master to another. Owners that had masters come first. It returns the errors of those for which their tenant
// would claim too many databases. For them only the Cluster counts, and they must not use its masters.
func (p *Pool) ClaimAgain(masters map[Owner][]auth.Endpoint) (refused map[Owner]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := map[Owner]claim{}
	for by := range masters {
		if before, had := p.quota.remove(by); had {
			given[by] = before
		}
	}
	refused = map[Owner]error{}
	grantedFirst := func(a, b Owner) int {
		return cmp.Or(cmp.Compare(len(given[b].masters), len(given[a].masters)), a.compare(b))
	}
	for _, by := range slices.SortedFunc(maps.Keys(given), grantedFirst) {
		wanted := claim{given[by].serverDatabase, masters[by]}
		if err := p.quota.add(by, wanted); err != nil {
			refused[by] = err
			p.quota.record(by, claim{serverDatabase: wanted.serverDatabase})
		}
	}
	return refused
}

// drop removes what an owner used, unless there are other claims for it. Call it with the lock held, and the returned
// function without it.
func (p *Pool) drop(given serverDatabase, had bool) (end func()) {
	if !had || p.quota.claimed(given) {
		return func() { /* nothing to close */ }
	}
	servers := p.serversOf(given.endpoint)
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

// serversOf returns the servers of an endpoint that was claimed: itself, or those of the deployment. Call it with the
// lock held. It does not look at the servers of others: each reconcile may need it.
func (p *Pool) serversOf(claimed auth.Endpoint) []*server {
	if named := p.servers[claimed]; named != nil {
		return []*server{named}
	}
	return slices.Collect(maps.Values(p.deployments[claimed]))
}

// remember adds a server to the pool. Call it with the lock held.
func (p *Pool) remember(of *server) {
	p.servers[of.endpoint] = of
	if p.startKeeper != nil {
		p.startKeeper(of)
	}
	if !of.endpoint.IsMember() {
		return
	}
	deployment := of.endpoint.Named()
	if p.deployments[deployment] == nil {
		p.deployments[deployment] = map[auth.Endpoint]*server{}
	}
	p.deployments[deployment][of.endpoint] = of
}

// forget removes a server from the pool. Call it with the lock held.
func (p *Pool) forget(of *server) {
	delete(p.servers, of.endpoint)
	deployment := of.endpoint.Named()
	delete(p.deployments[deployment], of.endpoint)
	if len(p.deployments[deployment]) == 0 {
		delete(p.deployments, deployment)
	}
}

// serverDatabase is a database of an endpoint.
type serverDatabase struct {
	endpoint auth.Endpoint
	number   int
}

// Owner is what uses a server: an object of a tenant.
type Owner struct{ Tenant, Name string }

func (o Owner) compare(with Owner) int {
	return cmp.Or(cmp.Compare(o.Tenant, with.Tenant), cmp.Compare(o.Name, with.Name))
}

// claim is what an owner uses: a database, and, for a Cluster whose masters are known, those that have its keys.
type claim struct {
	serverDatabase
	masters []auth.Endpoint
}

// share has what the owners of one tenant use, by database.
type share map[serverDatabase]*used

// used is how many owners of a tenant use a database, and how many of them use each master of a Cluster.
type used struct {
	owners  int
	masters map[auth.Endpoint]int
}

// size returns how many servers count for the limit: a Cluster counts as many as it has masters in use, at least one.
func (s share) size() (size int) {
	for _, of := range s {
		size += max(1, len(of.masters))
	}
	return size
}

// add adds a claim.
func (s share) add(wanted claim) {
	of := s[wanted.serverDatabase]
	if of == nil {
		of = &used{masters: map[auth.Endpoint]int{}}
		s[wanted.serverDatabase] = of
	}
	of.owners++
	for _, master := range wanted.masters {
		of.masters[master]++
	}
}

// remove removes a claim that was added.
func (s share) remove(given claim) {
	of := s[given.serverDatabase]
	for _, master := range given.masters {
		decrement(of.masters, master)
	}
	if of.owners--; of.owners == 0 {
		delete(s, given.serverDatabase)
	}
}

// serverQuota records which database of a server each owner uses, and limits their number per tenant. The lock of
// the pool guards it.
type serverQuota struct {
	perTenant int // 0 means no limit
	byOwner   map[Owner]claim
	tenants   map[string]share
	// users has the number of owners that claim a database.
	users map[serverDatabase]int
	// endpoints has, for each endpoint, the number of its databases with a claim.
	endpoints map[auth.Endpoint]int
}

// newServerQuota returns a serverQuota with a limit of perTenant databases for the owners of one tenant together. 0
// means no limit.
func newServerQuota(perTenant int) *serverQuota {
	return &serverQuota{
		perTenant: perTenant, byOwner: map[Owner]claim{},
		tenants: map[string]share{}, users: map[serverDatabase]int{}, endpoints: map[auth.Endpoint]int{},
	}
}

// has reports whether the owner has claimed this.
func (q *serverQuota) has(by Owner, wanted claim) bool {
	now, ok := q.byOwner[by]
	return ok && now.serverDatabase == wanted.serverDatabase && slices.Equal(now.masters, wanted.masters)
}

// add adds a claim of an owner that has none. The error is a [*failure.Error] if its tenant would exceed the limit;
// then nothing is added.
func (q *serverQuota) add(by Owner, wanted claim) error {
	before := q.tenants[by.Tenant].size()
	q.record(by, wanted)
	if after := q.tenants[by.Tenant].size(); q.perTenant > 0 && after > q.perTenant && after > before {
		q.remove(by)
		return tooManyServers(by.Tenant, q.perTenant)
	}
	return nil
}

// record adds a claim of an owner that has none, whatever the limit.
func (q *serverQuota) record(by Owner, wanted claim) {
	if q.tenants[by.Tenant] == nil {
		q.tenants[by.Tenant] = share{}
	}
	q.tenants[by.Tenant].add(wanted)
	q.byOwner[by] = wanted
	q.users[wanted.serverDatabase]++
	if q.users[wanted.serverDatabase] == 1 {
		q.endpoints[wanted.endpoint]++
	}
}

func tooManyServers(tenant string, limit int) *failure.Error {
	return &failure.Error{
		Reason: failure.ReasonTooManyServers,
		Message: "The ScaledJobs of this namespace use as many databases of Redis servers as the operator allows per namespace. " +
			"Use fewer, or ask an administrator to raise --max-redis-servers-per-namespace.",
		Err: fmt.Errorf("%s already uses %d databases of Redis servers", tenant, limit),
	}
}

// remove removes the claim of an owner, if there is one, and returns it.
func (q *serverQuota) remove(by Owner) (given claim, had bool) {
	given, had = q.byOwner[by]
	if !had {
		return claim{}, false
	}
	delete(q.byOwner, by)
	of := q.tenants[by.Tenant]
	of.remove(given)
	if len(of) == 0 {
		delete(q.tenants, by.Tenant)
	}
	if decrement(q.users, given.serverDatabase) {
		decrement(q.endpoints, given.endpoint)
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
func (q *serverQuota) endpointClaimed(e auth.Endpoint) bool { return q.endpoints[e.Named()] > 0 }
