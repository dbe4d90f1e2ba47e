// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// Conn is the shared way to a database of one endpoint. It stays valid until the pool ends, also
// when the pool closes and reopens connections in between.
type Conn struct {
	pool     *Pool
	endpoint Endpoint
	database int
}

// Do runs call with a client and a context that ends after one second. It fails at once,
// without running call, while the endpoint is down or leaves another call unanswered.
//
// An error is an [*rediserror.Error], unless ctx ended: then it wraps the cause of that.
func (c *Conn) Do(ctx context.Context, call func(ctx context.Context, client redis.Cmdable) error) error {
	used, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(used)
	client, err := used.admit(c.database)
	if err != nil {
		return err
	}
	defer used.clock(c.pool.timing.lateAfter)()
	began := time.Now()
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if client == nil {
		client, err = used.firstClient(callCtx, c.database)
	}
	if err == nil {
		err = protect(func() error { return call(callCtx, client) })
	}
	switch {
	case err == nil:
		used.succeeded()
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("calling %s: %w", c.endpoint, context.Cause(ctx))
	default:
		return used.failed(c.database, client, err, began)
	}
}

// Ask is Do for a question that a server need not answer. If it does not, or not in a way that
// makes sense, that says nothing about the endpoint.
func (c *Conn) Ask(ctx context.Context, call func(ctx context.Context, client redis.Cmdable) error) error {
	used, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(used)
	client, err := used.admit(c.database)
	if err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if client == nil {
		return rediserror.Classify(fmt.Errorf("asking %s: %w", c.endpoint, rediserror.ErrBusy)) // Whoever calls loads what is needed.
	}
	if err := protect(func() error { return call(callCtx, client) }); err != nil {
		return rediserror.Classify(err)
	}
	return nil
}

// WaitUp returns nil as soon as the endpoint is not known to be down. It dials nothing:
// it waits for the prober. It fails when ctx is done or the pool has ended.
func (c *Conn) WaitUp(ctx context.Context) error {
	used, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(used)
	down, up := used.state()
	if down == nil {
		return nil
	}
	return c.wait(ctx, up)
}

// WaitRestored returns nil the next time that the endpoint comes up after it was down. It
// fails when ctx is done or the pool has ended.
func (c *Conn) WaitRestored(ctx context.Context) error {
	used, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(used)
	_, up := used.state()
	return c.wait(ctx, up)
}

func (c *Conn) wait(ctx context.Context, up <-chan struct{}) error {
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", c.endpoint, context.Cause(ctx))
	case <-c.pool.ended:
		return rediserror.Classify(rediserror.ErrClosed)
	}
}

// OpenPubSub dials a connection for subscriptions and sends PING on it. The caller
// closes it. If that fails, the endpoint is down from then on.
func (c *Conn) OpenPubSub(ctx context.Context) (*PubSub, error) {
	used, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return nil, err
	}
	pubSub, err := used.openPubSub(ctx, c.pool.timing.openTimeout)
	if err != nil {
		c.pool.release(used)
		return nil, err
	}
	pubSub.release = func() {
		used.closed(pubSub)
		c.pool.release(used)
	}
	used.opened(pubSub) // From now on it may be closed by others.
	return pubSub, nil
}
