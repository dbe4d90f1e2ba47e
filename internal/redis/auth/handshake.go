// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Secure does the TLS handshake on a new connection, if there is to be one. It takes the
// connection over: after an error, which is a [*failure.HandshakeError], it is closed.
func (c *Credentials) Secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if c.tls == nil {
		return conn, nil
	}
	secured := tls.Client(conn, c.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &failure.HandshakeError{Err: err}
	}
	return &securedConn{Conn: secured}, nil
}

// securedConn is a connection after its handshake. It does not let the client library look for
// data below TLS, since that may be something else than data.
type securedConn struct {
	net.Conn
	answered atomic.Bool
}

// Read reads what the server said. In TLS 1.3 the server looks at the certificate of the client
// when for the client the handshake is over: its refusal is then the first thing to be read.
func (c *securedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, c.refusal(err)
}

// Write writes to the connection. A server that refuses may have closed it already, and what it
// said is there to be read. One that only does not read may say nothing either, ever.
func (c *securedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || c.answered.Load() || failure.IsTimeout(err) {
		return n, err
	}
	if _, reason := c.Conn.Read(make([]byte, 1)); reason != nil {
		if refusal, ok := errors.AsType[*failure.HandshakeError](c.refusal(reason)); ok {
			return n, refusal
		}
	}
	return n, err
}

// refusal makes of an alert, before the server has said anything else, what ended the handshake.
func (c *securedConn) refusal(err error) error {
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" && !c.answered.Load() {
		return &failure.HandshakeError{Err: err}
	}
	return err
}
