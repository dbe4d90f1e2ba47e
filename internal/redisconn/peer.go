// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/hostname"
	"miracle.dev/scaledjob-operator/internal/rediserror"
	"miracle.dev/scaledjob-operator/internal/resp"
)

// peer is what the pool knows about one endpoint: clients while it is up, the cause
// while it is down.
type peer struct {
	endpoint Endpoint
	keyring  keyring
	// passwords are told which ones the peer uses.
	passwords *passwords
	dialer    dialFunc
	// loading is held while the access is loaded for the first time.
	loading chan struct{}
	// dialing is held from a dial until the server has said something, while no connection
	// serves. So one dial finds out that a server is down, and those waiting for their turn
	// need not try. moreDialing takes its place while one does: a distant server must not
	// make many wait for each other.
	dialing, moreDialing chan struct{}
	// pin is the address of the endpoint that all connections lead to.
	pin hostname.Pin
	// gone is closed when the pool has forgotten the peer.
	gone chan struct{}
	// renewing is set while somebody looks whether the Secrets hold something else.
	renewing atomic.Bool
	// wentDown is called without the lock after the peer went down.
	wentDown func(*peer, *rediserror.Error)

	mu     sync.Mutex
	access *access // nil until it was loaded
	// clients are those of the access, one for each database that a call needed while up.
	clients map[int]*redis.Client
	down    *rediserror.Error // why the endpoint cannot be used; nil while it can
	up      chan struct{}     // closed when the endpoint comes up after it was down, and replaced
	renewed chan struct{}     // closed when there is another access, and replaced
	late    int               // calls that have been outstanding for too long
	open    int               // connections of the client that serve
	worked  time.Time         // when a call was answered last
	// refused is what the server refused last.
	refused refusal
	// known are the passwords that were loaded last, and spelled is how they may appear in a text.
	known, spelled []string
	// rejected is what Secrets held that did not replace what is in use.
	rejected values
	// backoff spaces the probes. Only work that was done resets it, so an endpoint that
	// answers probes and nothing else is tried ever less often.
	backoff Backoff

	// pubSubs are the open connections for subscriptions.
	pubSubs map[*PubSub]struct{}

	// users and idleSince are guarded by the lock of the pool.
	users     int
	idleSince time.Time
}

func newPeer(e Endpoint, k keyring, secret *passwords, dialer dialFunc, wentDown func(*peer, *rediserror.Error)) *peer {
	p := &peer{
		endpoint: e, keyring: k, passwords: secret, dialer: dialer, wentDown: wentDown, up: make(chan struct{}), pubSubs: map[*PubSub]struct{}{},
		loading: make(chan struct{}, 1), dialing: make(chan struct{}, 1), moreDialing: make(chan struct{}, moreDials),
		clients: map[int]*redis.Client{}, renewed: make(chan struct{}), gone: make(chan struct{}),
	}
	if e == (Endpoint{Address: e.Address}) {
		p.access = &access{}
	}
	return p
}

// admit lets a call begin, or says at once why not. The client is nil until there is an access.
func (p *peer) admit(database int) (*redis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	if p.late > 0 {
		return nil, rediserror.Classify(fmt.Errorf("calling %s: %w", p.endpoint, rediserror.ErrBusy))
	}
	return p.client(database), nil
}

// client returns the client of a database, which is nil if there is no access.
func (p *peer) client(database int) *redis.Client {
	found := p.clients[database]
	if found == nil && p.access != nil {
		found = newClient(p.endpoint, p.access, database, p.dialCommand(p.access))
		p.clients[database] = found
	}
	return found
}

// firstClient returns the client of a database, for which it loads the access if nobody has. The
// error is a cause for which the endpoint is down.
func (p *peer) firstClient(ctx context.Context, database int) (*redis.Client, error) {
	if _, err := p.firstAccess(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	if client := p.client(database); client != nil {
		return client, nil
	}
	return nil, rediserror.ErrBusy // The access was withdrawn a moment ago.
}

// firstAccess returns the access, and loads it if nobody has. One does while others wait, so a
// Secret is read once.
func (p *peer) firstAccess(ctx context.Context) (*access, error) {
	if known, err := p.inUse(); known != nil || err != nil {
		return known, err
	}
	if err := enter(ctx, p.loading); err != nil {
		return nil, err
	}
	defer func() { <-p.loading }()
	if known, err := p.inUse(); known != nil || err != nil {
		return known, err
	}
	loaded, err := p.load(ctx)
	if err != nil {
		return nil, notKnown(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.access = loaded
	return loaded, nil
}

// inUse returns the access, if there is one, unless the endpoint is down.
func (p *peer) inUse() (*access, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	return p.access, nil
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

// failed notes that a call that began then failed, and returns the error for the caller.
func (p *peer) failed(database int, client *redis.Client, err error, began time.Time) *rediserror.Error {
	return p.clean(p.judge(database, client, err, began))
}

// judge notes what the failure of a call says about the endpoint.
func (p *peer) judge(database int, client *redis.Client, err error, began time.Time) *rediserror.Error {
	cause := rediserror.Classify(err)
	if errors.Is(err, rediserror.ErrBusy) || !endsUse(cause) {
		return cause
	}
	if p.excused(cause, began) {
		return rediserror.Classify(fmt.Errorf("calling %s: %w: %w", p.endpoint, rediserror.ErrBusy, cause.Err))
	}
	p.mu.Lock()
	with, down := p.access, p.down
	current := p.clients[database] == client && (client != nil || with == nil)
	p.mu.Unlock()
	switch {
	case current:
		p.markDown(with, cause)
		return cause
	case down != nil: // The client was closed when another call failed.
		return down
	default: // It was closed because the name points elsewhere, or the credentials have changed.
		return rediserror.Classify(fmt.Errorf("calling %s: %w: %w", p.endpoint, rediserror.ErrBusy, cause.Err))
	}
}

// endsUse reports whether an error means that trying again soon is of no use. A reply that is
// too large is about what was asked, and ends no more than its connection: whoever may write to
// one key must not be able to take the server from all others.
func endsUse(cause *rediserror.Error) bool {
	if errors.Is(cause.Err, resp.ErrTooLarge) {
		return false
	}
	return !rediserror.IsReply(cause.Err) || cause.Reason == rediserror.ReasonAuthFailed
}

// excused reports whether a failure of what began then is no sign that the endpoint is
// down: others are served, and their connections could not all be replaced at once.
func (p *peer) excused(cause *rediserror.Error, began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rediserror.IsTimeout(cause) {
		return p.worked.After(began)
	}
	farewell, ok := errors.AsType[*resp.FarewellError](cause)
	return ok && rediserror.TooManyClients(farewell.Reply) && p.open > 0
}

// markDown records that the endpoint cannot be used with this access, which is nil if there is
// none, unless that is known. What fails with an access that was replaced says nothing.
func (p *peer) markDown(with *access, cause *rediserror.Error) {
	cause = p.clean(cause)
	p.mu.Lock()
	if p.down != nil || p.access != with {
		p.mu.Unlock()
		return
	}
	p.down = cause
	p.pin.Release()
	p.noteRefusal(with, cause)
	p.backoff.Begin()
	p.mu.Unlock()
	// Calls under way fail with it. Also, a client remembers failed dials and would go on
	// refusing for a while after the endpoint came back.
	p.closeClients()
	p.wentDown(p, cause)
}

// stillDown records why a probe failed, if it could be made at all.
func (p *peer) stillDown(cause *rediserror.Error) {
	if cause.Busy() {
		return
	}
	cause = p.clean(cause)
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
	p.refused = refusal{}
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
	if p.down.Reason == rediserror.ReasonAuthFailed && !p.endpoint.NeedsSecrets() {
		return refusedAuth
	}
	return p.backoff.Delay()
}

// state returns why the endpoint is down, which is nil while it is up, and the channel that
// is closed when it comes up the next time.
func (p *peer) state() (down *rediserror.Error, up <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down, p.up
}

// opened and closed keep which connections for subscriptions are open.
func (p *peer) opened(pubSub *PubSub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pubSubs[pubSub] = struct{}{}
}

func (p *peer) closed(pubSub *PubSub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pubSubs, pubSub)
}

// closeClients closes the clients, if there are any.
func (p *peer) closeClients() {
	p.mu.Lock()
	clients := p.clients
	p.clients = map[int]*redis.Client{}
	p.mu.Unlock()
	closeAll(clients)
}

// closeDatabase closes the client of a database, if there is one.
func (p *peer) closeDatabase(database int) {
	p.mu.Lock()
	client := p.clients[database]
	delete(p.clients, database)
	p.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

// end closes all there is, when the pool has forgotten the peer.
func (p *peer) end() {
	close(p.gone)
	p.passwords.forget(p)
	p.closeClients()
	p.closePubSubs()
}

// closePubSubs closes the connections for subscriptions.
func (p *peer) closePubSubs() {
	for _, pubSub := range p.astray(netip.AddrPort{}) {
		pubSub.Close()
	}
}

func closeAll(clients map[int]*redis.Client) {
	for _, client := range clients {
		_ = client.Close()
	}
}
