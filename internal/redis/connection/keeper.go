// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"math/rand/v2"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// jitter is the random part of the intervals of a keeper, so that not everything is due at once.
const jitter = 0.2

// keep does what is due for a server until the pool has forgotten it, or ctx is done: it tries the server while that is
// down, resolves its name again, reads its Secrets again, and has the pool forget it if it is not used. Each server has
// a keeper of its own, so that a name server, an API server or a Redis that hangs delays nothing for others.
func (p *Pool) keep(ctx context.Context, s *server) {
	sweep := time.NewTicker(p.timing.sweep)
	defer sweep.Stop()
	lookUp, reread := jittered(s.named, p.timing.lookUp), jittered(s.endpoint.NeedsSecrets(), p.timing.reread)
	var turn chan<- struct{} // to read the Secrets, once that is due
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.gone:
			return
		case <-s.fell:
			p.revive(ctx, s)
		case <-lookUp:
			p.resolve(ctx, s)
			lookUp = jittered(true, p.timing.lookUp)
		case <-reread:
			turn = p.renewals
		case turn <- struct{}{}:
			p.renew(ctx, s)
			turn, reread = nil, jittered(true, p.timing.reread)
		case <-sweep.C:
			p.forgetIdle(s)
		}
	}
}

// resolve resolves the name of a server again.
func (p *Pool) resolve(ctx context.Context, s *server) {
	if s.resolve(ctx, p.dns) {
		p.log.Info("The host name of a Redis server resolves to another address now", "endpoint", s.endpoint.String())
	}
}

// jittered returns a channel that gets the time after an interval; nil if it is not wanted.
func jittered(wanted bool, interval time.Duration) <-chan time.Time {
	if !wanted {
		return nil
	}
	return time.After(interval + time.Duration(float64(interval)*jitter*rand.Float64()))
}

// revive tries a server that is down until it is up or forgotten, or ctx is done.
func (p *Pool) revive(ctx context.Context, s *server) {
	p.logDown(s)
	for !p.forgetIdle(s) {
		select {
		case <-ctx.Done():
			return
		case <-s.gone:
			return
		case <-time.After(s.probeDelay()):
		}
		accepted, cause := s.tryAgain(ctx)
		if cause == nil {
			s.markUp(accepted)
			p.log.Info("Redis can be used again", "endpoint", s.endpoint.String())
			p.restored(s.endpoint)
			return
		}
		s.stillDown(cause)
	}
}

// logDown logs why a server is down.
func (p *Pool) logDown(s *server) {
	_, cause := s.current()
	endpoint, text := s.endpoint.String(), cause.Cause()
	if s.endpoint.IsMember() && s.passwords.In(endpoint) { // A server may announce what it was given.
		endpoint, text = "[redacted]", "[redacted]" // The cause may name the address.
	}
	p.log.Info("Redis cannot be used", "endpoint", endpoint, "reason", cause.Reason, "cause", text)
}

// probeDelay returns how long to wait before the next probe of a server that is down.
func (s *server) probeDelay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.down.Reason == failure.ReasonAuthFailed
	switch {
	case refused && !s.endpoint.NeedsSecrets():
		return s.timing.refusedAuth
	case refused && s.backoff.attempts == 1: // The Secret may have another password by now.
		return 0
	default:
		return s.backoff.Delay()
	}
}

// tryAgain tries a server that is down, first with the current values of its Secrets and then with the credentials that
// were in use before: the server may not have the new password yet. It returns the credentials that the server accepts.
func (s *server) tryAgain(ctx context.Context) (accepted *auth.Credentials, cause *failure.Error) {
	s.mu.Lock()
	s.backoff.Begin()
	s.mu.Unlock()
	candidate, cause := s.lookAgain(ctx)
	if cause != nil {
		return nil, cause
	}
	before, _ := s.current()
	cause = s.check(ctx, candidate)
	if cause == nil {
		return candidate, nil
	}
	if before != nil && before != candidate && isRefusal(cause) && s.check(ctx, before) == nil {
		return before, nil
	}
	return nil, cause
}

// isRefusal reports whether other credentials may work.
func isRefusal(cause *failure.Error) bool {
	return cause.Reason == failure.ReasonAuthFailed || cause.Reason == failure.ReasonTLSFailed
}
