// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// session is a client of one server.
type session struct {
	Server

	client *goredis.Client
	// detach lets the client outlive its context.
	detach func() bool
}

// open connects to a server step by step, and asks it what it is. It always returns a session, which must be closed.
func open(ctx context.Context, address string, access *Access, database int) *session {
	s := &session{Server: Server{Address: address}}
	// The client library would not say which step failed, so a connection is made only to see that.
	if conn := s.connect(ctx, access); conn != nil {
		_ = conn.Close() // Nothing was sent.
	}
	s.client = goredis.NewClient(&goredis.Options{
		Addr:     address,
		Username: access.Username, Password: access.Password, DB: database,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			again := &session{Server: Server{Address: address}}
			conn := again.connect(ctx, access)
			if conn == nil {
				return nil, again.Err
			}
			return conn, nil
		},
		OnConnect: func(ctx context.Context, conn *goredis.Conn) error {
			if access.Username == "" || access.Password != "" {
				return nil
			}
			return conn.AuthACL(ctx, access.Username, "").Err() // The library authenticates only with a password.
		},
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ContextTimeoutEnabled:    true,
		DialTimeout:              stepTimeout,
		ReadTimeout:              stepTimeout,
		WriteTimeout:             stepTimeout,
		DialerRetries:            1,
		MaxRetries:               -1,
	})
	// The library notices the end of a context only after its timeout.
	s.detach = context.AfterFunc(ctx, func() { _ = s.client.Close() })
	if s.Reached() {
		s.greet(ctx)
	}
	return s
}

func (s *session) close() {
	s.detach()
	_ = s.client.Close() // Nothing is left to send.
}

func (s *session) fail(step Step, err error) {
	s.Failed, s.Err = step, failure.Classify(err)
}

// connect makes a connection. It returns nil, and notes the step, if one failed.
func (s *session) connect(ctx context.Context, access *Access) net.Conn {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		s.fail(Lookup, err)
		return nil
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		s.fail(Lookup, err)
		return nil
	}
	var dialer net.Dialer
	var conn net.Conn
	for _, ip := range ips {
		if conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, port)); err == nil {
			break
		}
	}
	if err != nil {
		s.fail(Connect, err)
		return nil
	}
	if access.TLS == nil {
		return conn
	}
	return s.secure(ctx, conn, host, access.TLS)
}

// secure does the TLS handshake. It keeps the certificates, also those that are not accepted.
func (s *session) secure(ctx context.Context, conn net.Conn, host string, settings *tls.Config) net.Conn {
	config := settings.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	verify := !config.InsecureSkipVerify
	// VerifyConnection sees the certificates only if the library leaves the verification to it.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		s.Certificates = state.PeerCertificates
		if !verify || len(state.PeerCertificates) == 0 {
			return nil
		}
		return verified(state.PeerCertificates, config)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		s.fail(Handshake, &failure.HandshakeError{Err: err})
		return nil
	}
	return secured
}

// verified verifies the certificates of a server as the library does.
func verified(chain []*x509.Certificate, config *tls.Config) error {
	intermediates := x509.NewCertPool()
	for _, each := range chain[1:] {
		intermediates.AddCert(each)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: config.RootCAs, DNSName: config.ServerName, Intermediates: intermediates})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// greet signs in, and asks the server what it is. HELLO needs no permission.
func (s *session) greet(ctx context.Context) {
	reply, err := s.do(ctx, "HELLO", "3")
	if err != nil {
		// Redis before 6.0, and some services, do not know the command, so that they do not say what they are.
		if classified := refusal(err); classified.Reason == failure.ReasonAuthFailed || !failure.IsUnsupported(err) {
			s.Failed, s.Err = SignIn, classified
		}
		return
	}
	fields, _ := reply.(map[any]any)
	text := func(name string) string {
		value, _ := fields[name].(string)
		return value
	}
	s.Mode, s.Role, s.Version = text("mode"), text("role"), text("version")
	protocol, _ := fields["proto"].(int64)
	s.RESP3 = protocol == 3
}

// do runs a command. The error is never that there is no such key.
func (s *session) do(ctx context.Context, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	reply, err := s.client.Do(ctx, args...).Result()
	if errors.Is(err, goredis.Nil) {
		return nil, nil //nolint:nilnil // That is what the server said.
	}
	return reply, err
}

// refusal classifies an error. In TLS 1.3, the alert of a server that rejects the client certificate is the answer to
// the first command.
func refusal(err error) *failure.Error {
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		err = &failure.HandshakeError{Err: err}
	}
	return failure.Classify(err)
}
