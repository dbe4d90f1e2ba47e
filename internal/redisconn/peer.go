// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/hostname"
	"miracle.dev/scaledjob-operator/internal/rediserror"
	"miracle.dev/scaledjob-operator/internal/resp"
)

// moreDials is how many dials of an endpoint there may be at once while it serves.
const moreDials = 4

// peer is what the pool knows about one endpoint: a client while it is up, the cause
// while it is down.
type peer struct {
	endpoint Endpoint
	dialer   dialFunc
	// dialing is held from a dial until the server has said something, while no connection
	// serves. So one dial finds out that a server is down, and those waiting for their turn
	// need not try. moreDialing takes its place while one does: a distant server must not
	// make many wait for each other.
	dialing, moreDialing chan struct{}
	// pin is the address of the endpoint that all connections lead to.
	pin hostname.Pin
	// wentDown is called without the lock after the peer went down.
	wentDown func(*peer, *rediserror.Error)

	mu     sync.Mutex
	client *redis.Client     // nil until a call needs it, and while down
	down   *rediserror.Error // why the endpoint cannot be used; nil while it can
	up     chan struct{}     // closed when the endpoint comes up after it was down, and replaced
	late   int               // calls that have been outstanding for too long
	open   int               // connections of the client that serve
	worked time.Time         // when a call was answered last
	// backoff spaces the probes. Only work that was done resets it, so an endpoint that
	// answers probes and nothing else is tried ever less often.
	backoff Backoff

	// pubSubs are the open connections for subscriptions.
	pubSubs map[*PubSub]struct{}

	// users and idleSince are guarded by the lock of the pool.
	users     int
	idleSince time.Time
}

func newPeer(e Endpoint, dialer dialFunc, wentDown func(*peer, *rediserror.Error)) *peer {
	return &peer{
		endpoint: e, dialer: dialer, wentDown: wentDown, up: make(chan struct{}), pubSubs: map[*PubSub]struct{}{},
		dialing: make(chan struct{}, 1), moreDialing: make(chan struct{}, moreDials),
	}
}

// begin admits a call, or says at once why not. The call has ended when done is called.
func (p *peer) begin(lateAfter time.Duration) (client *redis.Client, done func(), err error) {
	client, err = p.admit()
	if err != nil {
		return nil, nil, err
	}
	return client, p.clock(lateAfter), nil
}

// admit returns a client, or says at once why there is none.
func (p *peer) admit() (*redis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	if p.late > 0 {
		return nil, rediserror.Classify(fmt.Errorf("calling %s: %w", p.endpoint, rediserror.ErrBusy))
	}
	if p.client == nil {
		p.client = newClient(p.endpoint, p.dialCommand)
	}
	return p.client, nil
}

// clock counts a call as late from lateAfter on, until done is called.
func (p *peer) clock(lateAfter time.Duration) (done func()) {
	var late, over bool // guarded by p.mu
	timer := time.AfterFunc(lateAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !over {
			late = true
			p.late++
		}
	})
	return func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		if late {
			p.late--
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
func (p *peer) failed(client *redis.Client, err error, began time.Time) *rediserror.Error {
	cause := rediserror.Classify(err)
	if errors.Is(err, rediserror.ErrBusy) || !endsUse(cause) {
		return cause
	}
	if p.excused(cause, began) {
		return rediserror.Classify(fmt.Errorf("calling %s: %w: %w", p.endpoint, rediserror.ErrBusy, cause.Err))
	}
	p.mu.Lock()
	current, down := p.client == client, p.down
	p.mu.Unlock()
	switch {
	case current:
		p.markDown(cause)
		return cause
	case down != nil: // The client was closed when another call failed.
		return down
	default: // It was closed because the name points elsewhere.
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

// markDown records that the endpoint cannot be used, unless that is known.
func (p *peer) markDown(cause *rediserror.Error) {
	p.mu.Lock()
	if p.down != nil {
		p.mu.Unlock()
		return
	}
	p.down = cause
	p.pin.Release()
	p.backoff.Begin()
	p.mu.Unlock()
	// Calls under way fail with it. Also, a client remembers failed dials and would go on
	// refusing for a while after the endpoint came back.
	p.closeClient()
	p.wentDown(p, cause)
}

// stillDown records why a probe failed.
func (p *peer) stillDown(cause *rediserror.Error) {
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
	if p.down.Reason == rediserror.ReasonAuthFailed {
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

// dialCommand dials for the client, unless the endpoint is down.
func (p *peer) dialCommand(ctx context.Context, network, address string) (net.Conn, error) {
	return p.dialIfUp(ctx, network, address, func(more int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open += more
	})
}

// dialPubSub dials for subscriptions, unless the endpoint is down.
func (p *peer) dialPubSub(ctx context.Context, network, address string) (net.Conn, error) {
	return p.dialIfUp(ctx, network, address, nil)
}

// dialIfUp dials, unless the endpoint is down. If no connection serves, and the dial fails
// or ends before the server has said anything, it is down from then on. count keeps how many
// serve.
func (p *peer) dialIfUp(ctx context.Context, network, address string, count func(more int)) (net.Conn, error) {
	alone, done, err := p.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	greeted := func(err error) {
		ours := errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed)
		if err != nil && !ours && alone {
			p.markDown(rediserror.Classify(err))
		}
		done()
	}
	if down, _ := p.state(); down != nil {
		greeted(nil)
		return nil, down
	}
	conn, err := p.pin.Dial(ctx, p.dialer, network, address)
	if err != nil {
		greeted(err)
		return nil, err
	}
	return resp.Guard(conn, resp.Observer{Greeted: greeted, Serving: count}), nil
}

// takeTurn waits for a turn to dial, and returns whether nobody else has one. The turn lasts
// until done is called.
func (p *peer) takeTurn(ctx context.Context) (alone bool, done func(), err error) {
	if !p.serves() {
		if err := enter(ctx, p.dialing); err != nil {
			return false, nil, err
		}
		if !p.serves() {
			return true, func() { <-p.dialing }, nil
		}
		<-p.dialing // It was found out meanwhile.
	}
	if err := enter(ctx, p.moreDialing); err != nil {
		return false, nil, err
	}
	return false, func() { <-p.moreDialing }, nil
}

// enter waits for room. That there is none in time says nothing about the endpoint.
func enter(ctx context.Context, room chan<- struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", rediserror.ErrBusy, context.Cause(ctx))
	}
}

func (p *peer) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > 0
}

// dialProbe dials although the endpoint is down.
func (p *peer) dialProbe(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.pin.Dial(ctx, p.dialer, network, address)
	if err != nil {
		return nil, err
	}
	return resp.Guard(conn, resp.Observer{}), nil
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

// closeClient closes the client, if there is one.
func (p *peer) closeClient() {
	p.mu.Lock()
	client := p.client
	p.client = nil
	p.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}
