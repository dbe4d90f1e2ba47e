// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// newTLSConfig returns nil for an endpoint without TLS. The error is an [*rediserror.Error].
func newTLSConfig(e Endpoint, found values) (*tls.Config, error) {
	if !e.TLS.Enabled {
		return nil, nil //nolint:nilnil // Nil is what stands for no TLS, here as in the libraries.
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         serverName(e),
		InsecureSkipVerify: e.TLS.SkipVerify, //nolint:gosec // The administrator has to allow it with a flag.
	}
	if e.TLS.CA != (SecretKey{}) {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(found.ca)) {
			return nil, invalid(e.TLS.CA, "holds no certificate in PEM. Store that of the authority which signed the server's.")
		}
	}
	if e.TLS.Certificate != (SecretKey{}) {
		pair, err := tls.X509KeyPair([]byte(found.certificate), []byte(found.privateKey))
		if err != nil {
			return nil, invalid(e.TLS.Certificate, "is no certificate in PEM that belongs to the private key. Store the two that belong together.")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// serverName is the name to find in the certificate of the server.
func serverName(e Endpoint) string {
	if e.TLS.ServerName != "" {
		return e.TLS.ServerName
	}
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil {
		return e.Address
	}
	return strings.TrimSuffix(host, ".")
}

// secure does the TLS handshake on a new connection, if there is to be one. It takes the
// connection over: after an error it is closed.
func secure(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return conn, nil
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &rediserror.HandshakeError{Err: err}
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
	if err == nil || c.answered.Load() || rediserror.IsTimeout(err) {
		return n, err
	}
	if _, reason := c.Conn.Read(make([]byte, 1)); reason != nil {
		if refusal, ok := errors.AsType[*rediserror.HandshakeError](c.refusal(reason)); ok {
			return n, refusal
		}
	}
	return n, err
}

// refusal makes of an alert, before the server has said anything else, what ended the handshake.
func (c *securedConn) refusal(err error) error {
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" && !c.answered.Load() {
		return &rediserror.HandshakeError{Err: err}
	}
	return err
}
