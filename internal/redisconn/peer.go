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
)

// peer is what the pool knows about one endpoint: a client while it is up, or why it is
// down.
type peer struct {
	endpoint Endpoint
	dialer   dialFunc
	// dialing is held during a dial. One dial at a time finds out that a server is down;
	// the others waiting for their turn are then refused without trying.
	dialing chan struct{}
	// wentDown is called, outside of the lock, after the peer went down.
	wentDown func(*peer, *Error)

	mu     sync.Mutex
	client *redis.Client // nil until a call needs it, and while down
	down   *Error        // why the endpoint cannot be used; nil while it can
	up     chan struct{} // closed when the endpoint is up again; nil while it is
	slow   int           // calls that have been outstanding for slowAfter
	// backoff spaces the probes. It outlives a short time up, so that an endpoint that
	// answers probes and nothing else is tried ever less often.
	backoff Backoff

	// users and idleSince belong to the pool and are guarded by its lock.
	users     int
	idleSince time.Time
}

// begin admits a call, or says at once why not. The returned function ends the call.
func (p *peer) begin(slowAfter time.Duration) (*redis.Client, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, nil, p.down
	}
	if p.slow > 0 {
		return nil, nil, Classify(fmt.Errorf("calling %s: %w", p.endpoint, ErrBusy))
	}
	if p.client == nil {
		p.client = newClient(p.endpoint, p.dialIfUp)
	}
	return p.client, p.watchTime(slowAfter), nil
}

// watchTime marks the peer as slow from slowAfter on until the returned function is called.
func (p *peer) watchTime(slowAfter time.Duration) (done func()) {
	var late, ended bool // guarded by p.mu
	timer := time.AfterFunc(slowAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !ended {
			late = true
			p.slow++
		}
	})
	return func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		ended = true
		if late {
			p.slow--
		}
	}
}

// succeeded notes that the endpoint did some work.
func (p *peer) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backoff.Reset()
}

// failed sorts out a failed call on client, and returns the error for the caller.
func (p *peer) failed(client *redis.Client, err error) error {
	classified := Classify(err)
	if IsReply(err) && classified.Reason != ReasonAuthFailed {
		return classified
	}
	p.mu.Lock()
	current, down := p.client == client, p.down
	p.mu.Unlock()
	switch {
	case current:
		p.markDown(classified)
	case down != nil:
		// The client was closed under the call because another one failed.
		return down
	}
	return classified
}

// markDown records that the endpoint cannot be used, unless that is known.
func (p *peer) markDown(cause *Error) {
	p.mu.Lock()
	if p.down != nil {
		p.mu.Unlock()
		return
	}
	client := p.client
	p.client, p.down, p.up = nil, cause, make(chan struct{})
	p.mu.Unlock()
	if client != nil {
		// Calls under way fail with it. The client also remembers failed dials and would
		// go on refusing for a while after the endpoint came back.
		_ = client.Close()
	}
	p.wentDown(p, cause)
}

// markUp lets calls through again.
func (p *peer) markUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.up)
	p.down, p.up = nil, nil
}

// stillDown records the newest cause.
func (p *peer) stillDown(cause *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = cause
}

// waitUp returns when the endpoint is not known to be down, or with the error of ctx.
func (p *peer) waitUp(ctx context.Context) error {
	p.mu.Lock()
	up := p.up
	p.mu.Unlock()
	if up == nil {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dialIfUp dials unless the endpoint is down, and marks it down if that fails.
func (p *peer) dialIfUp(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	if down != nil {
		return nil, down
	}
	conn, err := p.dial(ctx, network, address)
	if err != nil && !errors.Is(err, context.Canceled) {
		p.markDown(Classify(err))
	}
	return conn, err
}

// dial opens a connection whose replies are bounded.
func (p *peer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.dialer(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// closeClient closes the shared client, if there is one.
func (p *peer) closeClient() {
	p.mu.Lock()
	client := p.client
	p.client = nil
	p.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}
