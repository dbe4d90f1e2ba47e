// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Conn is a shared connection to one database of an endpoint. It stays valid until the pool is closed, even if the pool
// closes and reopens the connections below it.
type Conn struct {
	pool     *Pool
	tenant   string // whose limits apply; no limits if empty
	endpoint auth.Endpoint
	database int
}

// Endpoint returns the endpoint.
func (c *Conn) Endpoint() auth.Endpoint { return c.endpoint }

// Do runs call with a client and a context that ends after one second. It fails at once, without running call, while
// the server is down, while another call to the server is late, and while the tenant has too many late calls to any
// servers.
//
// The error is a [*failure.Error]; if ctx ended, it wraps the cause of ctx instead.
func (c *Conn) Do(ctx context.Context, call func(ctx context.Context, client Client) error) error {
	if !c.pool.calls.begin(c.tenant) {
		return failure.Classify(fmt.Errorf("calling %s on behalf of %s: %w", c.endpoint, c.tenant, failure.ErrBusy))
	}
	defer c.pool.calls.end(c.tenant)
	server, client, end, err := c.begin()
	if err != nil {
		return err
	}
	defer end()
	defer c.clock(server)()
	began := time.Now()
	callCtx, cancel := context.WithTimeout(ctx, server.timing.call)
	defer cancel()
	if client == nil {
		client, err = server.firstClient(callCtx, c.database)
	}
	if err == nil {
		err = protect(func() error { return call(callCtx, Client{client, server.endpoint.Role}) })
	}
	switch {
	case err == nil:
		server.succeeded()
		return nil
	case ended(ctx):
		return fmt.Errorf("calling %s: %w", c.endpoint, context.Cause(ctx))
	default:
		return server.failed(c.database, client, err, began)
	}
}

// begin begins a call. The client is nil until credentials are loaded.
func (c *Conn) begin() (server *server, client *redis.Client, end func(), err error) {
	if server, err = c.pool.acquire(c.endpoint); err != nil {
		return nil, nil, nil, err
	}
	if client, err = server.admit(c.database); err != nil {
		c.pool.release(server)
		return nil, nil, nil, err
	}
	ended := server.permits.begin(c.database)
	return server, client, func() { ended(); c.pool.release(server) }, nil
}

// ended reports whether ctx is done. A connection may notice the deadline a moment before.
func ended(ctx context.Context) bool {
	if deadline, has := ctx.Deadline(); has && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// clock counts the call as late once it takes too long, until done is called.
func (c *Conn) clock(server *server) (done func()) {
	return clock(c.pool.timing.lateAfter, func(more int) {
		server.count(func(t *traffic) { t.late += more })
		c.pool.calls.countLate(c.tenant, more)
	})
}

// Ask is like Do, but for a command that a server may leave unanswered. If it fails, the state of the endpoint does not
// change, and its time is not counted against other calls.
func (c *Conn) Ask(ctx context.Context, call func(ctx context.Context, client Client) error) error {
	server, client, end, err := c.begin()
	if err != nil {
		return err
	}
	defer end()
	callCtx, cancel := context.WithTimeout(ctx, server.timing.call)
	defer cancel()
	if client == nil {
		return failure.Classify(fmt.Errorf("asking %s: %w", c.endpoint, failure.ErrBusy)) // Do loads the credentials.
	}
	if err := protect(func() error { return call(callCtx, Client{client, server.endpoint.Role}) }); err != nil {
		return server.passwords.Error(failure.Classify(err))
	}
	return nil
}

// WaitUp returns nil as soon as the endpoint is not marked down. It does not dial; it waits for the keeper. It fails
// when ctx is done or the pool is closed.
func (c *Conn) WaitUp(ctx context.Context) error {
	return c.await(ctx, func(s *server) bool { return s.down == nil })
}

// await waits until the state of the server, is as awaited. It calls awaited with the lock held. It also returns
// when the pool has forgotten the server: the caller gets another one the next time.
func (c *Conn) await(ctx context.Context, awaited func(*server) bool) error {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return err
	}
	defer c.pool.release(server)
	for {
		server.mu.Lock()
		done, changed := awaited(server), server.changed
		server.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-server.gone:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", c.endpoint, context.Cause(ctx))
		case <-c.pool.ended:
			return failure.Classify(failure.ErrClosed)
		}
	}
}

// memory is what the users of a server remember about it.
type memory struct {
	once sync.Once
	of   any
}

// Memory returns what the users of the endpoint remember about it: what create returned at the first call, until the
// pool forgets the server. All callers must agree on the type.
func (c *Conn) Memory(create func() any) any {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return create()
	}
	defer c.pool.release(server)
	server.memory.once.Do(func() { server.memory.of = create() })
	return server.memory.of
}
