// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Conn is the shared way to a database of one endpoint. It stays valid until the pool ends, also
// when the pool closes and reopens connections in between.
type Conn struct {
	pool     *Pool
	tenant   string // on whose behalf calls are made; nobody's in particular if empty
	endpoint auth.Endpoint
	database int
}

// Do runs call with a client and a context that ends after one second. It fails at once, without running call, while the
// server is down or leaves another call unanswered, and while the tenant of the connection has too many calls that are
// unanswered anywhere.
//
// An error is an [*failure.Error], unless ctx ended: then it wraps the cause of that.
func (c *Conn) Do(ctx context.Context, call func(ctx context.Context, client redis.Cmdable) error) error {
	if !c.pool.calls.begin(c.tenant) {
		return failure.Classify(fmt.Errorf("calling %s on behalf of %s: %w", c.endpoint, c.tenant, failure.ErrBusy))
	}
	defer c.pool.calls.end(c.tenant)
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(server)
	client, err := server.admit(c.database)
	if err != nil {
		return err
	}
	defer c.clock(server)()
	began := time.Now()
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if client == nil {
		client, err = server.firstClient(callCtx, c.database)
	}
	if err == nil {
		err = protect(func() error { return call(callCtx, client) })
	}
	switch {
	case err == nil:
		server.succeeded()
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("calling %s: %w", c.endpoint, context.Cause(ctx))
	default:
		return server.failed(c.database, client, err, began)
	}
}

// clock counts a call as late once it is outstanding for too long, until done is called.
func (c *Conn) clock(server *server) (done func()) {
	calls, tenant := c.pool.calls, c.tenant
	return server.traffic.clock(c.pool.timing.lateAfter, func(more int) { calls.countLate(tenant, more) })
}

// Ask is Do for a question that a server need not answer. If it does not, or not in a way that
// makes sense, that says nothing about the endpoint.
func (c *Conn) Ask(ctx context.Context, call func(ctx context.Context, client redis.Cmdable) error) error {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(server)
	client, err := server.admit(c.database)
	if err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if client == nil {
		return failure.Classify(fmt.Errorf("asking %s: %w", c.endpoint, failure.ErrBusy)) // Whoever calls loads what is needed.
	}
	if err := protect(func() error { return call(callCtx, client) }); err != nil {
		return server.passwords.Error(failure.Classify(err))
	}
	return nil
}

// WaitUp returns nil as soon as the endpoint is not known to be down. It dials nothing:
// it waits for the prober. It fails when ctx is done or the pool has ended.
func (c *Conn) WaitUp(ctx context.Context) error {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(server)
	down, up := server.health.state()
	if down == nil {
		return nil
	}
	return c.wait(ctx, server, up)
}

// WaitRestored returns nil the next time that the endpoint comes up after it was down. It
// fails when ctx is done or the pool has ended.
func (c *Conn) WaitRestored(ctx context.Context) error {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(server)
	_, up := server.health.state()
	return c.wait(ctx, server, up)
}

// wait waits for what is known of the endpoint to change.
func (c *Conn) wait(ctx context.Context, server *server, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-server.gone: // Whoever looks again looks at another one.
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", c.endpoint, context.Cause(ctx))
	case <-c.pool.ended:
		return failure.Classify(failure.ErrClosed)
	}
}

// OpenPubSub dials a connection for subscriptions and sends PING on it. The caller
// closes it. If that fails, the endpoint is down from then on.
func (c *Conn) OpenPubSub(ctx context.Context) (*PubSub, error) {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return nil, err
	}
	pubSub, err := server.openPubSub(ctx, c.pool.timing.openTimeout)
	if err != nil {
		c.pool.release(server)
		return nil, err
	}
	pubSub.release = func() {
		server.pubSubs.remove(pubSub)
		c.pool.release(server)
	}
	server.pubSubs.add(pubSub) // From now on it may be closed by others.
	if !c.pool.knows(server) {
		pubSub.Close()
		return nil, failure.Classify(fmt.Errorf("connecting to %s: %w", c.endpoint, failure.ErrBusy))
	}
	return pubSub, nil
}

// Successor waits until the server is used with other credentials than those that a connection for subscriptions was
// made with, and returns one made with those, as [Conn.OpenPubSub] does. It fails when ctx is done or the pool has ended.
func (c *Conn) Successor(ctx context.Context, of *PubSub) (*PubSub, error) {
	var backoff Backoff
	for {
		if err := c.waitRenewed(ctx, of); err != nil {
			return nil, err
		}
		backoff.Begin()
		next, err := c.OpenPubSub(ctx)
		if err == nil || ctx.Err() != nil {
			return next, err
		}
		select {
		case <-ctx.Done():
		case <-c.pool.ended:
		case <-time.After(backoff.Delay()):
		}
	}
}

// waitRenewed returns nil once the server is up with other credentials than those of a connection.
func (c *Conn) waitRenewed(ctx context.Context, of *PubSub) error {
	for {
		server, err := c.pool.acquire(c.endpoint)
		if err != nil {
			return err
		}
		due, changed := server.health.succeeds(of.credentials)
		if !due {
			err = c.wait(ctx, server, changed)
		}
		c.pool.release(server)
		if due || err != nil {
			return err
		}
	}
}
