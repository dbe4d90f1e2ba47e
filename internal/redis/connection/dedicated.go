// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// dedicated is a connection that one user keeps until it closes it: a subscription, or a connection that is told of
// changes.
type dedicated struct {
	server      *server
	credentials *auth.Credentials
	// remote is the address of the server.
	remote netip.AddrPort
	// disconnect closes the connection. release is called after that; it may be nil.
	disconnect, release func()
	closing             sync.Once
}

// Close closes the connection, which ends a Receive that waits. It may be called more than once.
func (d *dedicated) Close() {
	d.closing.Do(func() {
		d.disconnect()
		if d.release != nil {
			d.release()
		}
	})
}

// failed classifies the error of a Receive. If the server has rejected the credentials, it is marked down.
func (d *dedicated) failed(err error) *failure.Error {
	cause := d.server.passwords.Error(failure.Classify(err))
	if cause.Reason == failure.ReasonAuthFailed {
		d.server.markDown(d.credentials, cause)
	}
	return cause
}

// classified classifies an error and removes the passwords from it.
func (d *dedicated) classified(err error) error {
	if err == nil {
		return nil
	}
	return d.server.passwords.Error(failure.Classify(err))
}

// kept is a dedicated connection of any kind.
type kept interface {
	comparable
	base() *dedicated
}

func (d *dedicated) base() *dedicated { return d }

// open connects with connect, registers the connection, so that the server may close it, and keeps the server until the
// connection is closed. If the pool has forgotten the server meanwhile, it closes the connection and returns an error.
func open[C kept](c *Conn, connect func(*server) (C, error)) (none C, err error) {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return none, err
	}
	conn, err := connect(server)
	if err != nil {
		c.pool.release(server)
		return none, err
	}
	opened := conn.base()
	opened.release = func() {
		server.dedicated.remove(opened)
		c.pool.release(server)
	}
	server.dedicated.add(opened) // From now on the server may close it.
	if !c.pool.knows(server) {
		opened.Close()
		return none, failure.Classify(fmt.Errorf("connecting to %s: %w", c.endpoint, failure.ErrBusy))
	}
	return conn, nil
}

// successor waits until the server is used with other credentials than those of a connection, and then returns what
// open returns. It tries again until open succeeds. It fails when ctx is done or the pool is closed.
func successor[T any](ctx context.Context, c *Conn, of *dedicated, open func(context.Context) (T, error)) (next T, err error) {
	var backoff Backoff
	for {
		if err := c.waitRenewed(ctx, of.credentials); err != nil {
			return next, err
		}
		backoff.Begin()
		next, err = open(ctx)
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

// errReplaced ends the use of a connection that has a successor.
var errReplaced = errors.New("a connection with other credentials has replaced this one")

// UseUntilReplaced uses a dedicated connection and closes it. If the credentials change, it ends the use and returns the
// connection to move to, which is open before the old one is closed. successor waits for that connection:
// [Conn.NextWire].
func UseUntilReplaced[C interface {
	comparable
	Close()
}](ctx context.Context, conn C, successor func(context.Context, C) (C, error), use func(context.Context) error) (next C, err error) {
	defer conn.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var none C
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if next, _ = successor(ctx, conn); next != none {
			end(errReplaced)
		}
	})
	err = use(ctx)
	end(nil)
	waiting.Wait()
	if next != none && !errors.Is(err, errReplaced) { // The old connection broke at the same moment.
		next.Close()
		next = none
	}
	return next, err
}

// waitRenewed returns nil once the server is up with other credentials than these.
func (c *Conn) waitRenewed(ctx context.Context, credentials *auth.Credentials) error {
	for {
		server, err := c.pool.acquire(c.endpoint)
		if err != nil {
			return err
		}
		due, changed := server.health.successorDue(credentials)
		if !due {
			err = c.wait(ctx, server, changed)
		}
		c.pool.release(server)
		if due || err != nil {
			return err
		}
	}
}

// dedicatedConns has the open dedicated connections of one server. They are not closed together with the clients: each
// one stays open until its successor has replaced it. It is safe for concurrent use. The zero value has none.
type dedicatedConns struct {
	mu   sync.Mutex
	open map[*dedicated]struct{}
}

func (d *dedicatedConns) add(opened *dedicated) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[*dedicated]struct{}{}
	}
	d.open[opened] = struct{}{}
}

func (d *dedicatedConns) remove(closed *dedicated) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, closed)
}

// closeAll closes all connections.
func (d *dedicatedConns) closeAll() {
	d.closeExcept(netip.AddrPort{}) // No connection has this address.
}

// closeExcept closes the connections that lead to another address.
func (d *dedicatedConns) closeExcept(inUse netip.AddrPort) {
	d.mu.Lock()
	var found []*dedicated
	for opened := range d.open {
		if opened.remote != inUse {
			found = append(found, opened)
		}
	}
	d.mu.Unlock()
	for _, opened := range found {
		opened.Close()
	}
}
