// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// callTimeout is the timeout of one call, including the time to get a connection.
const callTimeout = time.Second

// timing has the times that tests change.
type timing struct {
	call        time.Duration // timeout of a call
	dial        time.Duration // timeout of a dial
	lateAfter   time.Duration // age at which an unanswered call makes others fail at once
	openTimeout time.Duration // timeout for opening a pub/sub connection
	refusedAuth time.Duration // time between attempts with rejected credentials
	idle        time.Duration // time after which an unused endpoint is forgotten
	sweep       time.Duration // interval of the check for unused endpoints
	lookUp      time.Duration // interval of the DNS look-ups
	reread      time.Duration // interval of reading the Secrets of an endpoint
	// moveCooldown is how long no other move to another address follows.
	moveCooldown time.Duration
}

func productionTiming() timing {
	return timing{
		call:        callTimeout,
		dial:        dialTimeout,
		lateAfter:   100 * time.Millisecond,
		openTimeout: 3 * time.Second,
		refusedAuth: failure.RejectedRetry / 2,
		idle:        10 * time.Minute,
		sweep:       time.Minute,
		lookUp:      15 * time.Second,
		reread:      failure.RejectedRetry / 2,

		moveCooldown: 5 * time.Minute,
	}
}

// Pool shares the connections to each endpoint among all its users. While [Pool.Start] runs, each endpoint has a
// keeper, which probes it while it is down and has it forgotten when it is not used.
type Pool struct {
	log    logr.Logger
	timing timing
	dialer dialFunc
	// dns resolves the names in use again. It should be the resolver of the dialer.
	dns      hostLookup
	resolver *auth.Resolver
	calls    *callQuota
	// connections is how many connections to one server there may be.
	connections int
	// renewals limits how many servers read their Secrets again at the same time.
	renewals chan struct{}

	mu      sync.Mutex
	closed  bool
	servers map[auth.Endpoint]*server
	// deployments has those of the servers that belong to a deployment.
	deployments map[auth.Endpoint]map[auth.Endpoint]*server
	quota       *serverQuota
	// claiming is true once there was a claim. From then on, servers without a claim are not kept.
	claiming bool
	// startKeeper starts the keeper of a server. It is nil until the pool is started.
	startKeeper func(*server)
	// restored is called when a server was marked up.
	restored func(auth.Endpoint)
	// ended is closed when the pool is closed.
	ended chan struct{}
	// forbidden limits how often it is logged that Secrets in use may not be read any more.
	forbidden rate.Sometimes
}

// Options configure a [Pool]. The zero value is for servers without Secrets.
type Options struct {
	// Secrets reads the Secrets that endpoints name. If it is nil, no Secret is found.
	Secrets auth.Secrets
	// Control is called before each connect with the resolved address, and may deny it. If it is nil, all addresses are
	// allowed.
	Control func(ctx context.Context, network, address string, conn syscall.RawConn) error
	// Dial replaces the dialer in tests. Control is not called then.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// AllowInsecureTLS allows endpoints to skip the verification of the server's certificate.
	AllowInsecureTLS bool
	// ServersPerTenant is how many databases of servers the owners of one tenant may claim together. 0 means no limit.
	ServersPerTenant int
	// Connections is how many connections to one server there may be, for all its databases, including those for
	// subscriptions and tracking. One that replaces another, and one that finds out whether the server is up, may come on
	// top for a moment. 0 means DefaultConnections, and less than LeastConnections means LeastConnections.
	Connections int
	// LookAgain is the approximate time between two reads of a Secret in use, and the minimum time between two attempts
	// with credentials that a server rejected. 0 means 30 seconds.
	LookAgain time.Duration
	// CallTimeout is the timeout of one call. 0 means one second.
	CallTimeout time.Duration
	// Log gets a line when an endpoint is marked down or up.
	Log logr.Logger
}

// NewPool returns an empty pool. It connects to a server only when a call needs it. It switches off the logs of the
// client library, which has one logger for the whole process: they repeat what servers say.
func NewPool(options Options) *Pool {
	logging.Disable()
	timing := productionTiming()
	if options.LookAgain > 0 {
		timing.reread, timing.refusedAuth = options.LookAgain, options.LookAgain
	}
	if options.CallTimeout > 0 {
		timing.call, timing.dial = options.CallTimeout, options.CallTimeout*9/10
	}
	if options.Dial == nil {
		options.Dial = (&net.Dialer{Timeout: timing.call, ControlContext: options.Control}).DialContext
	}
	return &Pool{
		log:         options.Log,
		timing:      timing,
		dialer:      options.Dial,
		dns:         net.DefaultResolver,
		resolver:    auth.NewResolver(options.Secrets, options.AllowInsecureTLS),
		calls:       newCallQuota(),
		connections: max(cmp.Or(options.Connections, DefaultConnections), LeastConnections),
		servers:     map[auth.Endpoint]*server{},
		deployments: map[auth.Endpoint]map[auth.Endpoint]*server{},
		quota:       newServerQuota(options.ServersPerTenant),
		renewals:    make(chan struct{}, renewalsAtOnce),
		restored:    func(auth.Endpoint) { /* nobody asks for it */ },
		ended:       make(chan struct{}),
		forbidden:   rate.Sometimes{Interval: forbiddenInterval},
	}
}

// Conn returns the shared connection to a database of an endpoint, without a tenant. It does not connect before it is
// used.
func (p *Pool) Conn(e auth.Endpoint, database int) *Conn { return p.ConnFor("", e, database) }

// ConnFor is like Conn, for calls of a tenant. So that its slow servers do not delay all callers, its further calls
// fail at once while several of its calls have had no answer for 100 ms.
func (p *Pool) ConnFor(tenant string, e auth.Endpoint, database int) *Conn {
	return &Conn{pool: p, tenant: tenant, endpoint: e, database: database}
}

// OnRestored has restored called each time that an endpoint is marked up after it was down. It must not block. Call
// OnRestored before Start, once.
func (p *Pool) OnRestored(restored func(e auth.Endpoint)) { p.restored = restored }

// ContainsPassword reports whether a text contains the password of a server that uses Secrets of this namespace, in
// upper or lower case. Those of other namespaces do not count: whoever sees the result could guess them.
func (p *Pool) ContainsPassword(namespace, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for endpoint, server := range p.servers {
		if namespace != "" && endpoint.Namespace == namespace && server.passwords.In(text) {
			return true
		}
	}
	return false
}

// Start manages the endpoints until ctx is done. Then it closes all connections and returns nil. Call it once. Before
// Start, an endpoint that is marked down stays down.
func (p *Pool) Start(ctx context.Context) error {
	var keepers sync.WaitGroup
	defer keepers.Wait()
	defer p.close()
	p.mu.Lock()
	p.startKeeper = func(s *server) { keepers.Go(func() { p.keep(ctx, s) }) }
	for _, server := range p.servers {
		p.startKeeper(server)
	}
	p.mu.Unlock()
	sweep := time.NewTicker(p.timing.sweep)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			p.calls.forgetIdle()
		}
	}
}

// acquire returns the server of an endpoint and keeps it until release.
func (p *Pool) acquire(e auth.Endpoint) (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, failure.Classify(failure.ErrClosed)
	}
	server, ok := p.servers[e]
	if !ok {
		server = p.newServer(e)
		p.remember(server)
	}
	server.users++
	return server, nil
}

// release ends the use of a server. If nothing claims the endpoint any longer, it forgets the server: a subscription
// may acquire it for a moment after the last claim has ended.
func (p *Pool) release(server *server) {
	p.mu.Lock()
	server.users--
	server.idleSince = time.Now()
	known := !p.closed && p.servers[server.endpoint] == server
	unclaimed := known && server.users == 0 && p.claiming && !p.quota.endpointClaimed(server.endpoint)
	if unclaimed {
		p.forget(server)
	}
	p.mu.Unlock()
	switch {
	case unclaimed:
		server.end()
	case !known:
		server.closeClients() // A call that began before may have made a client since.
	}
}

// forgetIdle forgets a server that was not used for a while.
func (p *Pool) forgetIdle(s *server) (forgotten bool) {
	p.mu.Lock()
	forgotten = p.servers[s.endpoint] == s && s.users == 0 && time.Since(s.idleSince) >= p.timing.idle
	if forgotten {
		p.forget(s)
	}
	p.mu.Unlock()
	if forgotten {
		s.end()
	}
	return forgotten
}

// knows reports whether the pool has not forgotten a server.
func (p *Pool) knows(s *server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[s.endpoint] == s
}

// close ends all calls and makes later ones fail.
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

// Open returns how many connections are open or being made to each endpoint: those to the servers of a deployment
// together, by the name of the deployment. Endpoints without any are left out.
func (p *Pool) Open() map[string]int {
	p.mu.Lock()
	servers := slices.Collect(maps.Values(p.servers))
	p.mu.Unlock()
	open := map[string]int{}
	for _, server := range servers {
		if taken := server.permits.inUse(); taken > 0 {
			open[server.endpoint.Named().String()] += taken
		}
	}
	return open
}
