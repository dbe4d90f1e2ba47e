// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"net"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// probe tries a server that is down until it is up or forgotten, or ctx is done.
func (p *Pool) probe(ctx context.Context, server *server) {
	for p.knows(server) {
		select {
		case <-ctx.Done():
			return
		case <-server.gone:
			return
		case <-time.After(server.health.probeDelay(server.endpoint, p.timing.refusedAuth)):
		}
		server.health.beginProbe()
		if cause := server.tryAgain(ctx, p.timing.refusedAuth); cause != nil {
			server.stillDown(cause)
			continue
		}
		server.markUp()
		p.log.Info("Redis can be used again", "endpoint", server.endpoint.String())
		return
	}
}

// tryAgain tries a server that is down, first with the current values of its Secrets and then with the credentials that
// were in use before: the server may not have the new password yet.
func (s *server) tryAgain(ctx context.Context, refusedAuth time.Duration) *failure.Error {
	candidate, cause := s.lookAgain(ctx)
	if cause != nil {
		return cause
	}
	inUse, _ := s.health.current()
	before := inUse.credentials
	cause = s.try(ctx, candidate, refusedAuth)
	if cause == nil || before == nil || before == candidate || !isRefusal(cause) {
		return cause
	}
	if s.try(ctx, before, refusedAuth) == nil {
		return nil
	}
	return cause
}

// isRefusal reports whether other credentials may work.
func isRefusal(cause *failure.Error) bool {
	return cause.Reason == failure.ReasonAuthFailed || cause.Reason == failure.ReasonTLSFailed
}

// try puts credentials in use for a server that is down, if the server accepts them.
func (s *server) try(ctx context.Context, candidate *auth.Credentials, refusedAuth time.Duration) *failure.Error {
	if cause := s.check(ctx, candidate, refusedAuth); cause != nil {
		return cause
	}
	s.use(candidate)
	return nil
}

// check returns why credentials cannot be used now: the server has rejected them recently, or the server fails or
// rejects them now.
func (s *server) check(ctx context.Context, candidate *auth.Credentials, refusedAuth time.Duration) *failure.Error {
	if refused := s.credentials.refusedWithin(candidate, refusedAuth); refused != nil {
		return refused
	}
	cause := s.passwords.Error(failure.Classify(ping(ctx, s, candidate)))
	if cause == nil || !marksDown(cause) {
		return nil
	}
	s.credentials.recordRefused(candidate, cause)
	return cause
}

// ping connects with these credentials and waits for the reply to PING. It has as much time as a subscription.
func ping(ctx context.Context, server *server, with *auth.Credentials) error {
	conn, err := server.connect(ctx, with, func(conn net.Conn) net.Conn { return resp.Guard(conn, resp.Observer{}) },
		func(ctx context.Context, conn net.Conn) error {
			return server.greet(ctx, conn, with, nil, 0, []string{"ping"})
		})
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p *Pool) knows(server *server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[server.endpoint] == server
}
