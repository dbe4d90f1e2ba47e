// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// mostPolled is how many servers of a deployment are polled, and mostMasters how many masters it may have.
	mostPolled  = 64
	mostMasters = 256
)

// deployment is what differs between a deployment with sentinels and a Cluster.
type deployment interface {
	// merge returns what follows from the responses, if so many servers are polled; nil if nothing does. awaits says that
	// one of them has yet to respond, and epoch is that of the latest failover that any of them knew of.
	merge(reported []response, polled int, awaits bool, epoch uint64) *view
	// commands returns the commands of a request.
	commands() [][]any
	// parse parses the replies of the server at an address to these commands.
	parse(replies []any, address string) (response, error)
	// explain returns why nothing is known, by the error of one of the servers.
	explain(cause *failure.Error) *failure.Error
	// isMember reports whether a server belongs to the deployment, whose servers are known by these IDs.
	isMember(reported response, known map[string]bool) bool
	// wanted returns the addresses of the servers to poll. responses are by address, and masters are those that were known
	// last.
	wanted(responses map[string]response, masters []auth.Endpoint) []string
}

// addresses are those of servers to poll, each once.
type addresses []string

func (a *addresses) add(address string) {
	if len(*a) < mostPolled && !slices.Contains(*a, address) {
		*a = append(*a, address)
	}
}

// watcher watches the topology of one deployment.
type watcher struct {
	deployment
	// server returns the endpoint of the server to poll at an address.
	server   func(address string) auth.Endpoint
	endpoint auth.Endpoint
	pool     *connection.Pool
	log      logr.Logger
	// shares are those of the tenants that use the deployment. users is how many objects of each tenant do, and polled how
	// many servers may be polled. The lock of shares guards them.
	shares *shares
	users  map[string]int
	polled int
	// moved is called when a route may have changed, and calls adopt.
	moved func(next *view)
	// uses has how each object uses the deployment. inUse has how many of them may use each master of a Cluster, refusals
	// is how many may not use theirs, and refused is why. The lock of the directory guards them.
	uses     map[connection.Owner]use
	inUse    map[auth.Endpoint]int
	refusals int
	refused  error
	// gone is closed when nobody uses the deployment any longer.
	gone chan struct{}

	// unprocessed has a token when there is a response that was not processed.
	unprocessed chan struct{}

	// known is what is known; nil before the first responses.
	known atomic.Pointer[view]
	// checkedAt is when run last began to check the age of the responses, and has published what follows.
	checkedAt atomic.Pointer[time.Time]
	// changes grows when routes have changed. It begins with the time, so that a deployment that was not watched for a
	// while does not get the same number again.
	changes atomic.Uint64
	// epoch is that of the latest failover that any sentinel knew of, masters are the masters that were known last, and
	// peers is what the servers of the deployment were last known by. nonMembers has the addresses of servers that respond
	// and do not belong to it. Only run uses them.
	epoch      uint64
	masters    []auth.Endpoint
	peers      map[string]bool
	nonMembers map[string]bool
	begun      time.Time
	// answering is an address that the user has written and that has responded; nil before the first response.
	answering atomic.Pointer[string]
	// newAddresses limits how many new addresses are used: servers may name ever new ones. lastUsed has when an address
	// was in use last.
	newAddresses *rate.Limiter
	lastUsed     map[string]time.Time

	mu        sync.Mutex
	responses map[string]response
	pollers   map[string]*poller
	// differs means that a response differs from the one before.
	differs bool
	// received is how many responses have differed, and processed how many of them were processed.
	received, processed uint64
	// updated is closed, and replaced, after each response, and after responses were processed.
	updated chan struct{}
}

func newWatcher(pool *connection.Pool, shares *shares, e auth.Endpoint, log logr.Logger) *watcher {
	w := &watcher{
		endpoint: e, pool: pool, log: log, shares: shares, users: map[string]int{},
		gone: make(chan struct{}), unprocessed: make(chan struct{}, 1), updated: make(chan struct{}),
		responses: map[string]response{}, pollers: map[string]*poller{}, begun: time.Now(),
		newAddresses: rate.NewLimiter(rate.Every(newAddressInterval), mostNewAddresses), lastUsed: map[string]time.Time{},
		uses: map[connection.Owner]use{}, inUse: map[auth.Endpoint]int{},
	}
	w.moved = w.adopt
	w.checkedAt.Store(&w.begun)
	w.changes.Store(uint64(w.begun.UnixNano()))
	if e.Mode == auth.ModeSentinel {
		w.deployment, w.server = sentinels{e}, e.SentinelAt
	} else {
		w.deployment, w.server = cluster{e}, e.ServerAt
	}
	return w
}

// run polls servers until nobody uses the deployment any longer or ctx is done.
func (w *watcher) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	w.adjust(ctx, &running)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.gone:
			stop()
			return
		case <-w.unprocessed:
		case <-ticker.C: // Responses may have become old.
			w.forgetAddresses()
		}
		w.step(ctx, &running)
	}
}

// step processes the responses, and polls the servers that follow from them.
func (w *watcher) step(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	received := w.received
	w.mu.Unlock()
	began := time.Now()
	w.process(began)
	w.adjust(ctx, running)
	w.shares.charge(w, time.Since(began))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processed = received
	w.signalUpdate()
}

// adjust polls the servers that are to be polled, and no others.
func (w *watcher) adjust(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := w.wanted(w.memberResponses(), w.masters)
	wanted = wanted[:w.shares.admit(w, len(wanted))]
	for address, p := range w.pollers {
		if !slices.Contains(wanted, address) {
			p.stop()
			delete(w.pollers, address)
			delete(w.responses, address)
			w.differs = true
		}
	}
	for _, address := range wanted {
		if w.pollers[address] == nil && w.mayUse(address) {
			w.startPoller(ctx, running, address)
		}
	}
}

// startPoller begins to poll a server. Call it with the lock held.
func (w *watcher) startPoller(ctx context.Context, running *sync.WaitGroup, address string) {
	polling, stop := context.WithCancel(ctx)
	conn := w.pool.Conn(w.server(address), 0)
	p := &poller{
		begin:   func(ctx context.Context) (*share, error) { return w.shares.begin(ctx, w) },
		request: func(ctx context.Context, by *share) (response, error) { return w.request(ctx, conn, by) },
		pollNow: make(chan struct{}, 1), stop: stop,
	}
	w.pollers[address] = p
	running.Go(func() { p.run(polling, func(reported response) { w.record(address, p, reported) }) })
	if w.endpoint.Mode == auth.ModeSentinel {
		running.Go(func() { w.listen(polling, conn) })
	}
}

// request polls a server once, at the expense of a tenant's share.
func (w *watcher) request(ctx context.Context, conn *connection.Conn, by *share) (reported response, err error) {
	var raw [][]byte
	err = conn.Do(ctx, func(ctx context.Context, client connection.Client) (err error) {
		if raw, err = client.ReadRaw(ctx, w.commands()...); err != nil {
			return err
		}
		began := time.Now()
		defer func() { by.time.Charge(time.Since(began)) }()
		replies, err := resp.DecodeAll(raw)
		if err != nil {
			return err
		}
		reported, err = w.parse(replies, conn.Endpoint().Address)
		return err
	})
	by.time.Charge(costOf(raw, err))
	return reported, err
}
