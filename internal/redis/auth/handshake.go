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

// Secure does the TLS handshake on a new connection, if the credentials are for TLS. If it fails, it closes the
// connection and returns a [*failure.HandshakeError].
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

// securedConn is a connection after its handshake. It hides the socket from the client library, which would otherwise
// look for unread bytes below TLS, where even an idle connection may have some.
type securedConn struct {
	net.Conn
	answered atomic.Bool
}

// Read reads what the server sent. In TLS 1.3 the handshake ends for the client before the server has verified the
// client certificate. If the server rejects it, the first read returns the alert.
func (c *securedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, c.refusal(err)
}

// Write writes to the connection. A server that rejects the client certificate may have closed the connection already;
// its alert can then still be read, and tells more than the error of the write. After a timeout there is no such read:
// a server that does not read may never send anything either.
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

// refusal turns an alert into a [*failure.HandshakeError] if the server has sent no data before it.
func (c *securedConn) refusal(err error) error {
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" && !c.answered.Load() {
		return &failure.HandshakeError{Err: err}
	}
	return err
}
