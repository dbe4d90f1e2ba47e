// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/redact"
)

// callTimeout bounds one call, from getting a connection to the last byte of the reply.
const callTimeout = time.Second

// timing holds the intervals that tests shorten.
type timing struct {
	lateAfter   time.Duration // when an unanswered call makes others fail at once
	openTimeout time.Duration // for opening a pub/sub connection
	refusedAuth time.Duration // between probes of an endpoint that refuses the credentials
	idle        time.Duration // after which an unused endpoint is forgotten
	sweep       time.Duration // between looks for unused endpoints
	lookUp      time.Duration // between looks where host names point
	reread      time.Duration // between looks at the Secrets of an endpoint
	// restAfterMove is for how long a name is not followed again.
	restAfterMove time.Duration
}

func productionTiming() timing {
	return timing{
		lateAfter:   100 * time.Millisecond,
		openTimeout: 3 * time.Second,
		refusedAuth: 30 * time.Second,
		idle:        10 * time.Minute,
		sweep:       time.Minute,
		lookUp:      15 * time.Second,
		reread:      30 * time.Second,

		restAfterMove: 5 * time.Minute,
	}
}

// Pool shares the connections to each endpoint among all its users. For as long as
// [Pool.Start] runs, it probes the endpoints that are down and forgets those nobody uses.
type Pool struct {
	log    logr.Logger
	timing timing
	dialer dialFunc
	// dns is asked where names point now. It should be that of the dialer.
	dns      hostLookup
	resolver *auth.Resolver
	// passwords are those of all servers.
	passwords *redact.Register
	calls     *callQuota

	mu      sync.Mutex
	closed  bool
	servers map[auth.Endpoint]*server
	quota   *serverQuota
	// claiming is set once anything was claimed. From then on, nobody uses for long what is not.
	claiming bool
	// unprobed are the servers that went down and have no prober yet.
	unprobed []*server
	// changed holds a token while unprobed may not be empty.
	changed chan struct{}
	// ended is closed when the pool is.
	ended chan struct{}
}

// Options are what a [Pool] is made of. The zero value is for servers that need no Secrets.
type Options struct {
	// Secrets is asked for what endpoints name. Without it no Secret is found.
	Secrets auth.Secrets
	// Control is called before each dial, with the address that the name was found to have, and may
	// refuse it. Nil refuses nothing.
	Control func(ctx context.Context, network, address string, conn syscall.RawConn) error
	// AllowInsecureTLS lets endpoints skip the verification of the server.
	AllowInsecureTLS bool
	// ServersPerTenant is how many servers and databases the owners of one tenant may claim
	// together. 0 is no limit.
	ServersPerTenant int
	// LookAgain is about how often the Secrets that endpoints in use name are read again, and how
	// often at most credentials are tried again that a server refused. 0 is every 30 seconds.
	LookAgain time.Duration
	// Log gets a line when an endpoint goes down or comes up.
	Log logr.Logger
}

// NewPool returns an empty pool. It makes no connection before one is needed.
func NewPool(options Options) *Pool {
	timing := productionTiming()
	if options.LookAgain > 0 {
		timing.reread, timing.refusedAuth = options.LookAgain, options.LookAgain
	}
	return &Pool{
		log:       options.Log,
		timing:    timing,
		dialer:    (&net.Dialer{Timeout: callTimeout, ControlContext: options.Control}).DialContext,
		dns:       net.DefaultResolver,
		resolver:  auth.NewResolver(options.Secrets, options.AllowInsecureTLS),
		passwords: redact.NewRegister(),
		calls:     newCallQuota(),
		servers:   map[auth.Endpoint]*server{},
		quota:     newServerQuota(options.ServersPerTenant),
		changed:   make(chan struct{}, 1),
		ended:     make(chan struct{}),
	}
}

// Conn returns the shared connection to a database of an endpoint, on nobody's behalf in
// particular. It costs nothing until it is used.
func (p *Pool) Conn(e auth.Endpoint, database int) *Conn { return p.ConnFor("", e, database) }

// ConnFor is Conn on behalf of a tenant, whose slow servers must not hold up all callers: while
// some calls of one tenant are unanswered for 100 ms, further ones fail at once.
func (p *Pool) ConnFor(tenant string, e auth.Endpoint, database int) *Conn {
	return &Conn{pool: p, tenant: tenant, endpoint: e, database: database}
}

// Start looks after the endpoints until ctx is done, then closes all connections and
// returns nil. It may be called once. Without it, an endpoint that goes down stays down.
func (p *Pool) Start(ctx context.Context) error {
	ticker := time.NewTicker(p.timing.sweep)
	defer ticker.Stop()
	defer p.close()
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { p.followNames(ctx) })
	workers.Go(func() { p.followSecrets(ctx) })
	for {
		for _, server := range p.takeUnprobed() {
			workers.Go(func() { p.probe(ctx, server) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		case <-ticker.C:
			p.forgetIdle()
		}
	}
}

// acquire returns the server of an endpoint, which is kept until it is released.
func (p *Pool) acquire(e auth.Endpoint) (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, failure.Classify(failure.ErrClosed)
	}
	server, ok := p.servers[e]
	if !ok {
		server = p.newServer(e)
		p.servers[e] = server
	}
	server.users++
	return server, nil
}

// release ends what acquire began. A server that was used after the last claim had ended, by a subscription that was
// about to end too, is forgotten again.
func (p *Pool) release(server *server) {
	p.mu.Lock()
	server.users--
	server.idleSince = time.Now()
	known := !p.closed && p.servers[server.endpoint] == server
	unclaimed := known && server.users == 0 && p.claiming && !p.quota.endpointClaimed(server.endpoint)
	if unclaimed {
		delete(p.servers, server.endpoint)
	}
	p.mu.Unlock()
	switch {
	case unclaimed:
		server.end()
	case !known:
		server.closeClients() // The call may have begun before and made a client after.
	}
}

// wentDown asks for a prober.
func (p *Pool) wentDown(server *server, cause *failure.Error) {
	p.mu.Lock()
	closed := p.closed
	p.unprobed = append(p.unprobed, server)
	p.mu.Unlock()
	if closed {
		return
	}
	p.log.Info("Redis cannot be used", "endpoint", server.endpoint.String(), "reason", cause.Reason, "cause", cause.Cause())
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *Pool) takeUnprobed() []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.unprobed
	p.unprobed = nil
	return taken
}

// forgetIdle drops the servers and tenants that nobody has used for a while.
func (p *Pool) forgetIdle() {
	p.calls.forgetIdle()
	for _, server := range p.takeIdle() {
		server.end()
	}
}

// takeIdle forgets the servers that nobody has used for a while, and returns them.
func (p *Pool) takeIdle() []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	var idle []*server
	for endpoint, server := range p.servers {
		if server.users == 0 && time.Since(server.idleSince) >= p.timing.idle {
			delete(p.servers, endpoint)
			idle = append(idle, server)
		}
	}
	return idle
}

// close ends all calls under way, and makes later ones fail.
func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	close(p.ended)
	servers := slices.Collect(maps.Values(p.servers))
	p.mu.Unlock()
	for _, server := range servers {
		server.closeClients()
	}
}
