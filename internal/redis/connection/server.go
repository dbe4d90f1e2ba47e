// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/redact"
)

// peer is what the pool knows about one endpoint: clients while it is up, the cause
// while it is down.
type peer struct {
	endpoint auth.Endpoint
	keyring  *auth.Keyring
	// passwords are those that were loaded last. What the server says is told without them.
	passwords *redact.Passwords
	dialer    dialFunc
	// loading is held while the access is loaded for the first time.
	loading chan struct{}
	// dialing is held from a dial until the server has said something, while no connection
	// serves. So one dial finds out that a server is down, and those waiting for their turn
	// need not try. moreDialing takes its place while one does: a distant server must not
	// make many wait for each other.
	dialing, moreDialing chan struct{}
	// pin is the address of the endpoint that all connections lead to.
	pin pin
	// gone is closed when the pool has forgotten the peer.
	gone chan struct{}
	// renewing is set while somebody looks whether the Secrets hold something else.
	renewing atomic.Bool
	// wentDown is called without the lock after the peer went down.
	wentDown func(*peer, *failure.Error)

	mu     sync.Mutex
	access *auth.Access // nil until it was loaded
	// clients are those of the access, one for each database that a call needed while up.
	clients map[int]*redis.Client
	down    *failure.Error // why the endpoint cannot be used; nil while it can
	up      chan struct{}  // closed when the endpoint comes up after it was down, and replaced
	renewed chan struct{}  // closed when there is another access, and replaced
	late    int            // calls that have been outstanding for too long
	open    int            // connections of the client that serve
	worked  time.Time      // when a call was answered last
	refused refusals
	// rejected is what the Secrets hold that did not replace what is in use.
	rejected *rejection
	// backoff spaces the probes. Only work that was done resets it, so an endpoint that
	// answers probes and nothing else is tried ever less often.
	backoff Backoff

	// pubSubs are the open connections for subscriptions.
	pubSubs map[*PubSub]struct{}

	// users, idleSince and rereadAt, when the Secrets are due again, are guarded by the lock of the
	// pool.
	users     int
	idleSince time.Time
	rereadAt  time.Time
}

func (p *Pool) newPeer(e auth.Endpoint) *peer {
	made := &peer{
		endpoint: e, keyring: p.keyring, passwords: p.passwords.Add(), dialer: p.dialer, wentDown: p.wentDown,
		loading: make(chan struct{}, firstLoads), dialing: make(chan struct{}, firstDials), moreDialing: make(chan struct{}, moreDials),
		up: make(chan struct{}), renewed: make(chan struct{}), gone: make(chan struct{}),
		clients: map[int]*redis.Client{}, pubSubs: map[*PubSub]struct{}{},
	}
	if e == (auth.Endpoint{Address: e.Address}) {
		made.access = &auth.Access{} // Nothing is to be loaded.
	}
	return made
}

// admit lets a call begin, or says at once why not. The client is nil until there is an access.
func (p *peer) admit(database int) (*redis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	if p.late > 0 {
		return nil, failure.Classify(fmt.Errorf("calling %s: %w", p.endpoint, failure.ErrBusy))
	}
	return p.client(database), nil
}

// clock counts a call as late from lateAfter on, here and wherever count does, until done is
// called.
func (p *peer) clock(lateAfter time.Duration, count func(more int)) (done func()) {
	var late, over bool // guarded by p.mu
	timer := time.AfterFunc(lateAfter, func() {
		p.mu.Lock()
		if over {
			p.mu.Unlock()
			return
		}
		late = true
		p.late++
		p.mu.Unlock()
		count(1)
	})
	return func() {
		timer.Stop()
		p.mu.Lock()
		over = true
		wasLate := late
		if wasLate {
			p.late--
		}
		p.mu.Unlock()
		if wasLate {
			count(-1)
		}
	}
}

// succeeded notes that the endpoint did some work.
func (p *peer) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backoff.Reset()
	p.worked = time.Now()
}

// markDown records that the endpoint cannot be used with this access, which is nil if there is
// none, unless that is known. What fails with an access that was replaced says nothing.
func (p *peer) markDown(with *auth.Access, cause *failure.Error) {
	cause = p.passwords.Error(cause)
	p.mu.Lock()
	if p.down != nil || p.access != with {
		p.mu.Unlock()
		return
	}
	p.down = cause
	p.pin.Release()
	if cause.Reason == failure.ReasonAuthFailed {
		p.refused = nil // The server knows others than before.
	}
	p.refused.note(with, cause)
	p.backoff.Begin()
	p.mu.Unlock()
	// Calls under way fail with it. Also, a client remembers failed dials and would go on
	// refusing for a while after the endpoint came back.
	p.closeClients()
	p.wentDown(p, cause)
}

// stillDown records why a probe failed, if it could be made at all.
func (p *peer) stillDown(cause *failure.Error) {
	if cause.Busy() {
		return
	}
	cause = p.passwords.Error(cause)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = cause
	p.pin.Release()
}

// markUp lets calls through again.
func (p *peer) markUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.up)
	p.down, p.up = nil, make(chan struct{})
	p.refused.forget(p.access)
}

// beginProbe notes that a probe begins.
func (p *peer) beginProbe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backoff.Begin()
}

// probeDelay returns how long to wait before the next probe.
func (p *peer) probeDelay(refusedAuth time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused := p.down.Reason == failure.ReasonAuthFailed
	switch {
	case refused && !p.endpoint.NeedsSecrets():
		return refusedAuth
	case refused && p.backoff.attempts == 1: // The Secret may hold another one by now.
		return 0
	default:
		return p.backoff.Delay()
	}
}

// state returns why the endpoint is down, which is nil while it is up, and the channel that
// is closed when it comes up the next time.
func (p *peer) state() (down *failure.Error, up <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down, p.up
}

// end closes all there is, when the pool has forgotten the peer.
func (p *peer) end() {
	close(p.gone)
	p.passwords.Forget()
	p.closeClients()
	p.closePubSubs()
}
