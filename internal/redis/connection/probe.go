// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
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

// tryAgain tries a server that is down with the credentials that its Secrets hold now, and then with those that were in
// use before: the server may not know the new password yet.
func (s *server) tryAgain(ctx context.Context, refusedAuth time.Duration) *failure.Error {
	candidate, cause := s.lookAgain(ctx)
	if cause != nil {
		return cause
	}
	inUse, _ := s.health.look()
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

// isRefusal reports whether other credentials may help.
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

// check is why credentials cannot be used now: the server refused them a short while ago, or does so now.
func (s *server) check(ctx context.Context, candidate *auth.Credentials, refusedAuth time.Duration) *failure.Error {
	if refused := s.credentials.refusal(candidate, refusedAuth); refused != nil {
		return refused
	}
	cause := s.passwords.Error(failure.Classify(ping(ctx, s, candidate)))
	if cause == nil || !endsUse(cause) {
		return nil
	}
	s.credentials.refuse(candidate, cause)
	return cause
}

// ping makes a connection of its own with these credentials, and gets one answer.
func ping(ctx context.Context, server *server, with *auth.Credentials) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pubSub, err := newPubSub(ctx, server, with, server.dialProbe(with))
	if err != nil {
		return err
	}
	defer pubSub.Close()
	defer context.AfterFunc(ctx, pubSub.Close)()
	_, err = pubSub.Receive(ctx, callTimeout)
	return err
}

func (p *Pool) knows(server *server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[server.endpoint] == server
}
