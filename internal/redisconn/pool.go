// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// callTimeout bounds one call, from getting a connection to the last byte of the reply.
const callTimeout = time.Second

// timing holds the intervals that tests shorten.
type timing struct {
	call        time.Duration // the deadline of a call
	slowAfter   time.Duration // when an unanswered call makes others fail at once
	openTimeout time.Duration // the deadline for opening a pub/sub connection
	authRetry   time.Duration // between probes of an endpoint that refuses the credentials
	idle        time.Duration // after which an unused endpoint is forgotten
	sweep       time.Duration // between looks for unused endpoints
}

func productionTiming() timing {
	return timing{
		call:        callTimeout,
		slowAfter:   100 * time.Millisecond,
		openTimeout: 3 * time.Second,
		authRetry:   30 * time.Second,
		idle:        10 * time.Minute,
		sweep:       time.Minute,
	}
}

// Pool shares the connections to each endpoint among all its users. It keeps trying the
// endpoints that are down and forgets those nobody uses, for as long as [Pool.Start] runs.
type Pool struct {
	log    logr.Logger
	timing timing
	dialer dialFunc

	mu     sync.Mutex
	closed bool
	peers  map[Endpoint]*peer
	// unprobed holds the peers that went down and have no prober yet.
	unprobed []*peer
	// changed holds a token while unprobed may not be empty.
	changed chan struct{}
}

// NewPool returns an empty pool. It makes no connection before one is needed.
func NewPool(log logr.Logger) *Pool {
	return &Pool{
		log:     log,
		timing:  productionTiming(),
		dialer:  (&net.Dialer{Timeout: callTimeout}).DialContext,
		peers:   map[Endpoint]*peer{},
		changed: make(chan struct{}, 1),
	}
}

// Conn returns the shared connection to an endpoint. It costs nothing until it is used.
func (p *Pool) Conn(e Endpoint) *Conn { return &Conn{pool: p, endpoint: e} }

// Start looks after the endpoints until ctx is done, then closes all connections and
// returns nil. Without it, an endpoint that goes down stays down.
func (p *Pool) Start(ctx context.Context) error {
	ticker := time.NewTicker(p.timing.sweep)
	defer ticker.Stop()
	var probers sync.WaitGroup
	defer probers.Wait()
	defer p.close()
	for {
		for _, peer := range p.takeUnprobed() {
			probers.Go(func() { p.probe(ctx, peer) })
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

// acquire returns the peer of an endpoint and keeps it until release.
func (p *Pool) acquire(e Endpoint) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, Classify(ErrClosed)
	}
	found, ok := p.peers[e]
	if !ok {
		found = &peer{endpoint: e, dialer: p.dialer, dialing: make(chan struct{}, 1), wentDown: p.wentDown}
		p.peers[e] = found
	}
	found.users++
	return found, nil
}

func (p *Pool) release(used *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used.users--
	used.idleSince = time.Now()
}

// wentDown asks for a prober.
func (p *Pool) wentDown(down *peer, cause *Error) {
	p.log.Info("Redis cannot be used", "endpoint", down.endpoint, "reason", cause.Reason, "cause", cause.Err.Error())
	p.mu.Lock()
	p.unprobed = append(p.unprobed, down)
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *Pool) takeUnprobed() []*peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.unprobed
	p.unprobed = nil
	return taken
}

// probe tries a peer that is down until it is up, forgotten, or ctx is done.
func (p *Pool) probe(ctx context.Context, down *peer) {
	for p.knows(down) && sleep(ctx, p.probeDelay(down)) {
		cause := p.ping(ctx, down)
		if cause == nil {
			p.log.Info("Redis can be used again", "endpoint", down.endpoint)
			down.markUp()
			return
		}
		down.stillDown(cause)
	}
}

func (p *Pool) probeDelay(down *peer) time.Duration {
	down.mu.Lock()
	defer down.mu.Unlock()
	if down.down.Reason == ReasonAuthFailed {
		return p.timing.authRetry
	}
	return down.backoff.Next()
}

// ping finds out whether a peer that is down has come back: any reply will do that does
// not refuse the credentials.
func (p *Pool) ping(ctx context.Context, down *peer) *Error {
	down.mu.Lock()
	down.backoff.Begin()
	down.mu.Unlock()
	pubSub, err := openPubSub(ctx, down, down.dial, p.timing.call)
	if err == nil {
		_, err = pubSub.Receive(p.timing.call)
		pubSub.Close()
	}
	if cause := Classify(err); cause != nil && (!IsReply(err) || cause.Reason == ReasonAuthFailed) {
		return cause
	}
	return nil
}

func (p *Pool) knows(candidate *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peers[candidate.endpoint] == candidate
}

// forgetIdle drops the peers that nobody has used for a while.
func (p *Pool) forgetIdle() {
	p.mu.Lock()
	var idle []*peer
	for endpoint, candidate := range p.peers {
		if candidate.users == 0 && time.Since(candidate.idleSince) >= p.timing.idle {
			idle = append(idle, candidate)
			delete(p.peers, endpoint)
		}
	}
	p.mu.Unlock()
	for _, forgotten := range idle {
		forgotten.closeClient()
	}
}

func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	peers := p.peers
	p.peers = nil
	p.mu.Unlock()
	for _, closing := range peers {
		closing.markDown(&Error{Reason: ReasonUnreachable, Message: "The operator is shutting down.", Err: errors.New("shutting down")})
	}
}

// sleep waits and reports whether ctx is still alive then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
