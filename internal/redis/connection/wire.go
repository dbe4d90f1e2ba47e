// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// Wire is one connection to one database for commands, their replies, and the messages that a server sends unsolicited:
// notifications and invalidations. The protocol is RESP3 if the server speaks it.
//
// [Wire.Send] and [Wire.Receive] may be called concurrently. The end of a context interrupts neither; call Close for
// that.
type Wire struct {
	pool        *Pool
	server      *server
	credentials *auth.Credentials
	// remote is the address of the server.
	remote  netip.AddrPort
	conn    *permitted
	replies *resp.Reader
	command []byte // the buffer of Send
	// replace, which the lock of the server guards, is called once, when the server is used with other credentials.
	replace func()
	closing sync.Once
	// resp3 means that the server speaks RESP3, and selected that the commands work on the database.
	resp3, selected bool
}

// Tracks reports whether keys can be tracked on this connection. Over RESP2 Redis accepts CLIENT TRACKING as well, but
// sends nothing; and keys are read in the database that is selected.
func (w *Wire) Tracks() bool { return w.resp3 && w.selected }

// OpenWire dials a connection, authenticates and selects the database. The caller must close it. If it fails, the
// endpoint is marked down. If the pool has forgotten the server meanwhile, it fails as well.
func (c *Conn) OpenWire(ctx context.Context) (*Wire, error) { return c.openWire(ctx, false) }

func (c *Conn) openWire(ctx context.Context, replaces bool) (*Wire, error) {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return nil, err
	}
	w, err := server.openWire(ctx, c.database, replaces)
	if err != nil {
		c.pool.release(server)
		return nil, err
	}
	w.pool = c.pool
	server.mu.Lock()
	server.wires[w] = struct{}{} // From now on the server may close it.
	server.mu.Unlock()
	if !c.pool.knows(server) {
		w.Close()
		return nil, failure.Classify(fmt.Errorf("connecting to %s: %w", c.endpoint, failure.ErrBusy))
	}
	return w, nil
}

// openWire connects with the credentials in use, and loads them if necessary. If it fails, the server is marked down.
func (s *server) openWire(ctx context.Context, database int, replaces bool) (*Wire, error) {
	began := time.Now()
	openCtx, cancel := context.WithTimeout(ctx, s.timing.openTimeout)
	defer cancel()
	w := &Wire{server: s}
	err := w.open(openCtx, database, replaces)
	switch {
	case err == nil:
		return w, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connecting to %s: %w", s.endpoint, context.Cause(ctx))
	}
	cause := failure.Classify(err)
	if !errors.Is(err, failure.ErrBusy) && !errors.Is(err, failure.ErrNotMaster) && !s.excused(cause, began) {
		s.markDown(w.credentials, cause)
	}
	return nil, s.passwords.Error(cause)
}

func (w *Wire) open(ctx context.Context, database int, replaces bool) (err error) {
	if w.credentials, err = w.server.firstCredentials(ctx); err != nil {
		return err
	}
	taken, err := w.server.permits.acquire(ctx, forMessages, database, replaces)
	if err != nil {
		return err
	}
	w.conn, err = w.server.connectIfUp(ctx, w.credentials, taken, resp.GuardMessages, func(ctx context.Context, conn net.Conn) error {
		return w.greet(ctx, conn, taken, database)
	})
	if err != nil {
		return err
	}
	w.remote, w.replies = remoteOf(w.conn), resp.NewReader(w.conn)
	return nil
}

// greet makes the handshake. The user may not be allowed to select the database, which notifications do not depend on.
func (w *Wire) greet(ctx context.Context, conn net.Conn, taken *permit, database int) error {
	greeting, replies, err := w.server.introduce(ctx, conn, w.credentials, taken, database, nil)
	if err != nil {
		return err
	}
	w.resp3 = resp.Field(greeting, "proto") == any(int64(3))
	w.selected = firstRefusal(replies) == nil
	return nil
}

// Send sends commands at once. It fails if the server does not read them in time.
func (w *Wire) Send(commands ...[]string) error {
	w.command = w.command[:0]
	for _, command := range commands {
		w.command = resp.AppendCommand(w.command, command...)
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.server.timing.call)); err != nil {
		return w.failed(err)
	}
	if _, err := w.conn.Write(w.command); err != nil {
		return w.failed(err)
	}
	return nil
}

// Receive returns the next reply or message, in a type of package resp; an error reply is a [resp.Error]. The error is
// a
// [*failure.Error]. After an error, including a timeout, close the connection.
func (w *Wire) Receive(timeout time.Duration) (any, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, w.failed(err)
	}
	reply, err := w.replies.Next()
	if err != nil {
		return nil, w.failed(err)
	}
	return reply, nil
}

// Refused returns the class of an error reply. If the server no longer accepts the credentials, it is marked down.
func (w *Wire) Refused(reply resp.Error) *failure.Error { return w.failed(reply) }

// Close closes the connection, which ends a Receive that waits. It may be called more than once.
func (w *Wire) Close() {
	w.closing.Do(func() {
		_ = w.conn.Close()
		w.server.mu.Lock()
		delete(w.server.wires, w)
		w.server.mu.Unlock()
		w.pool.release(w.server)
	})
}

// failed classifies an error. If the server has rejected the credentials, it is marked down.
func (w *Wire) failed(err error) *failure.Error {
	cause := w.server.passwords.Error(failure.Classify(err))
	if cause.Reason == failure.ReasonAuthFailed {
		w.server.markDown(w.credentials, cause)
	}
	return cause
}

// errReplaced ends the use of a wire that has a successor.
var errReplaced = errors.New("a connection with other credentials has replaced this one")

// UseWire uses a wire and closes it. If the credentials change, it ends the use and returns the wire to move to, which
// is open before the old one is closed.
func (c *Conn) UseWire(ctx context.Context, wire *Wire, use func(context.Context) error) (next *Wire, err error) {
	defer wire.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var replacing sync.Once
	wire.onRenewed(func() {
		replacing.Do(func() {
			if next, _ = c.nextWire(ctx, wire); next != nil {
				end(errReplaced)
			}
		})
	})
	err = use(ctx)
	end(nil)
	replacing.Do(func() { /* From now on, there is no next wire. */ })
	if next != nil && !errors.Is(err, errReplaced) { // The old connection broke at the same moment.
		next.Close()
		next = nil
	}
	return next, err
}

// onRenewed has replace called once, in a goroutine, when the server is up with other credentials than those of the
// wire, unless the wire is closed before.
func (w *Wire) onRenewed(replace func()) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.replace = replace
	w.replaceRenewed()
}

// replaceRenewed calls replace if it is time, and not again: it tries until it succeeds. Call it with the lock of the
// server held.
func (w *Wire) replaceRenewed() {
	if w.replace != nil && w.server.renewed(w.credentials) {
		go w.replace()
		w.replace = nil
	}
}

// nextWire waits until the server is used with other credentials than those of a wire, and then returns a new wire with
// the current ones. It tries again until that succeeds. It fails when ctx is done or the pool is closed.
func (c *Conn) nextWire(ctx context.Context, of *Wire) (*Wire, error) {
	var backoff Backoff
	for {
		if err := c.waitRenewed(ctx, of.credentials); err != nil {
			return nil, err
		}
		backoff.Begin()
		next, err := c.openWire(ctx, true)
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

// waitRenewed returns nil once the server is up with other credentials than these.
func (c *Conn) waitRenewed(ctx context.Context, credentials *auth.Credentials) error {
	var renewed bool
	for {
		err := c.await(ctx, func(s *server) bool {
			renewed = s.renewed(credentials)
			return renewed
		})
		if renewed || err != nil {
			return err
		}
	}
}
