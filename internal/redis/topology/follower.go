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
	// mostAsked is how many servers of a deployment are asked where keys are, and mostMasters how many masters it may
	// have.
	mostAsked   = 64
	mostMasters = 256
)

// deployment is what differs between a deployment with sentinels and a Cluster.
type deployment interface {
	// server returns the endpoint of a server to ask.
	server(address string) auth.Endpoint
	// decide returns what follows from what was said, by servers of which so many are asked; nil if nothing does. epoch is
	// that of the latest failover that any of them knew of.
	decide(said []answer, asked int, epoch uint64) *view
	// commands returns the commands that ask a server.
	commands() [][]any
	// parse parses the replies to them of the server at an address.
	parse(replies []any, address string) (answer, error)
	// explain returns why nothing is known, by the error of one of the servers.
	explain(cause *failure.Error) *failure.Error
	// belongs reports whether a server is one of those that the deployment is known to have.
	belongs(said answer, known map[string]bool) bool
	// wanted returns the addresses of the servers to ask. answers are by address, and masters are those that were known
	// last.
	wanted(answers map[string]answer, masters []auth.Endpoint) []string
}

// addresses are those of servers to ask, each once.
type addresses []string

func (a *addresses) add(address string) {
	if len(*a) < mostAsked && !slices.Contains(*a, address) {
		*a = append(*a, address)
	}
}

// follower follows one deployment.
type follower struct {
	deployment
	endpoint auth.Endpoint
	pool     *connection.Pool
	log      logr.Logger
	// shares are those of the tenants that use the deployment. users is how many objects of each tenant do, and polled how
	// many servers may be polled. The lock of shares guards them.
	shares *shares
	users  map[string]int
	polled int
	// changed is set when a place may have changed.
	changed chan<- struct{}
	// gone is closed when nobody uses the deployment any longer.
	gone chan struct{}

	// news has a token when there is an answer that was not considered.
	news chan struct{}

	// known is what is known; nil before the first answers.
	known atomic.Pointer[view]
	// looked is when run last looked for answers that have become old.
	looked atomic.Pointer[time.Time]
	// changes grows when places have changed. It begins with the time, so that a deployment that was not followed for a while
	// does not get a number again.
	changes atomic.Uint64
	// epoch is that of the latest failover that any sentinel knew of, masters are the masters that were known last, and
	// peers is what the servers of the deployment were last known by. outsiders has the addresses of servers that answer and
	// do not belong to it. Only run uses them.
	epoch     uint64
	masters   []auth.Endpoint
	peers     map[string]bool
	outsiders map[string]bool
	begun     time.Time
	// witness is the address that the user has written and that has answered; nil before the first answer. unused has the
	// announced servers that cannot be used.
	witness  atomic.Pointer[string]
	unusedMu sync.Mutex
	unused   map[string]bool
	// newAddresses limits how many new addresses are used: servers may name ever new ones. met has when an address was in
	// use last.
	newAddresses *rate.Limiter
	met          map[string]time.Time

	mu      sync.Mutex
	answers map[string]answer
	pollers map[string]*poller
	// differs means that an answer differs from the one before.
	differs bool
	// noted is how many answers have said something new, and considered how many of them were considered.
	noted, considered uint64
	// heard is closed, and replaced, after an answer, and after answers were considered.
	heard chan struct{}
}

func newFollower(pool *connection.Pool, shares *shares, e auth.Endpoint, changed chan<- struct{}, log logr.Logger) *follower {
	f := &follower{
		endpoint: e, pool: pool, log: log, shares: shares, users: map[string]int{},
		changed: changed, gone: make(chan struct{}), news: make(chan struct{}, 1), heard: make(chan struct{}),
		answers: map[string]answer{}, pollers: map[string]*poller{}, begun: time.Now(),
		newAddresses: rate.NewLimiter(rate.Every(newAddressInterval), mostNewAddresses), met: map[string]time.Time{},
		unused: map[string]bool{},
	}
	f.changes.Store(uint64(f.begun.UnixNano()))
	if e.Mode == auth.ModeSentinel {
		f.deployment = sentinels{e}
	} else {
		f.deployment = cluster{e}
	}
	return f
}

// run asks servers until nobody uses the deployment any longer or ctx is done.
func (f *follower) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	f.adjust(ctx, &asking)
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.gone:
			stop()
			return
		case <-f.news:
		case <-ticker.C: // Answers may have become old.
			f.forget()
		}
		f.step(ctx, &asking)
	}
}

// step considers the answers and asks the servers that follow from them.
func (f *follower) step(ctx context.Context, asking *sync.WaitGroup) {
	f.mu.Lock()
	noted := f.noted
	f.mu.Unlock()
	began := time.Now()
	f.consider(began)
	f.adjust(ctx, asking)
	f.shares.spend(f, time.Since(began))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.considered = noted
	f.announce()
}

// adjust asks the servers that are to be asked, and no others.
func (f *follower) adjust(ctx context.Context, asking *sync.WaitGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := f.wanted(f.ofDeployment(), f.masters)
	wanted = wanted[:f.shares.poll(f, len(wanted))]
	for address, p := range f.pollers {
		if !slices.Contains(wanted, address) {
			p.stop()
			delete(f.pollers, address)
			delete(f.answers, address)
			f.differs = true
		}
	}
	for _, address := range wanted {
		if f.pollers[address] == nil && f.meet(address) {
			f.poll(ctx, asking, address)
		}
	}
}

// poll begins to ask a server. Call it with the lock held.
func (f *follower) poll(ctx context.Context, asking *sync.WaitGroup, address string) {
	polling, stop := context.WithCancel(ctx)
	conn := f.pool.Conn(f.server(address), 0)
	p := &poller{
		begin: func(ctx context.Context) (*share, error) { return f.shares.begin(ctx, f) },
		ask:   func(ctx context.Context, by *share) (answer, error) { return f.ask(ctx, conn, by) },
		hurry: make(chan struct{}, 1), stop: stop,
	}
	f.pollers[address] = p
	asking.Go(func() { p.run(polling, func(said answer) { f.note(address, p, said) }) })
	if f.endpoint.Mode == auth.ModeSentinel {
		asking.Go(func() { f.listen(polling, conn) })
	}
}

// ask asks a server, with the share of a tenant.
func (f *follower) ask(ctx context.Context, conn *connection.Conn, by *share) (said answer, err error) {
	var replies [][]byte
	err = conn.Pipeline(ctx, func(raw [][]byte) (err error) {
		replies = raw
		began := time.Now()
		defer func() { by.time.Spend(time.Since(began)) }()
		decoded := make([]any, len(raw))
		for i, each := range raw {
			if decoded[i], err = resp.Decode(each); err != nil {
				return err
			}
		}
		said, err = f.parse(decoded, conn.Endpoint().Address)
		return err
	}, f.commands()...)
	by.time.Spend(costOf(replies, err))
	return said, err
}
