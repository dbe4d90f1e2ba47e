// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/redact"
)

// server is what the pool knows about one endpoint: clients while it is up, the cause
// while it is down.
type server struct {
	endpoint auth.Endpoint
	resolver *auth.Resolver
	// passwords are those that were loaded last. What the server says is told without them.
	passwords *redact.Passwords
	dialer    dialFunc
	// loading is held while they are loaded for the first time.
	loading chan struct{}
	// dialing is held from a dial until the server has said something, while no connection
	// serves. So one dial finds out that a server is down, and those waiting for their turn
	// need not try. moreDialing takes its place while one does: a distant server must not
	// make many wait for each other.
	dialing, moreDialing chan struct{}
	// pin is the address of the endpoint that all connections lead to.
	pin pin
	// gone is closed when the pool has forgotten the server.
	gone chan struct{}
	// renewing is set while somebody looks whether the Secrets hold something else.
	renewing atomic.Bool
	// wentDown is called without the lock after the server went down.
	wentDown func(*server, *failure.Error)

	mu          sync.Mutex
	credentials *auth.Credentials // nil until they were loaded
	// clients are those of the credentials, one for each database that a call needed while up.
	clients map[int]*redis.Client
	down    *failure.Error // why the endpoint cannot be used; nil while it can
	up      chan struct{}  // closed when the endpoint comes up after it was down, and replaced
	renewed chan struct{}  // closed when there is other credentials, and replaced
	late    int            // calls that have been outstanding for too long
	open    int            // connections of the client that serve
	worked  time.Time      // when a call was answered last
	refused refusedLogins
	// rejected is what the Secrets hold that did not replace what is in use.
	rejected *rejection
	// backoff spaces the probes. Only work that was done resets it, so an endpoint that
	// answers probes and nothing else is tried ever less often.
	backoff Backoff

	// pubSubs are the open connections for subscriptions.
	pubSubs map[*PubSub]struct{}

	// users, idleSince and rereadAt, when the Secrets are due again, are guarded by the lock of the
	// pool.
	users     int
	idleSince time.Time
	rereadAt  time.Time
}

func (p *Pool) newServer(e auth.Endpoint) *server {
	server := &server{
		endpoint: e, resolver: p.resolver, passwords: p.passwords.Add(), dialer: p.dialer, wentDown: p.wentDown,
		loading: make(chan struct{}, 1), dialing: make(chan struct{}, 1), moreDialing: make(chan struct{}, moreDials),
		up: make(chan struct{}), renewed: make(chan struct{}), gone: make(chan struct{}),
		clients: map[int]*redis.Client{}, pubSubs: map[*PubSub]struct{}{},
	}
	if e == (auth.Endpoint{Address: e.Address}) {
		server.credentials = &auth.Credentials{} // Nothing is to be loaded.
	}
	return server
}

// admit lets a call begin, or says at once why not. The client is nil until there are credentials.
func (s *server) admit(database int) (*redis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	if s.late > 0 {
		return nil, failure.Classify(fmt.Errorf("calling %s: %w", s.endpoint, failure.ErrBusy))
	}
	return s.client(database), nil
}

// clock counts a call as late from lateAfter on, here and wherever count does, until done is
// called.
func (s *server) clock(lateAfter time.Duration, count func(more int)) (done func()) {
	var late, over bool // guarded by s.mu
	timer := time.AfterFunc(lateAfter, func() {
		s.mu.Lock()
		if over {
			s.mu.Unlock()
			return
		}
		late = true
		s.late++
		s.mu.Unlock()
		count(1)
	})
	return func() {
		timer.Stop()
		s.mu.Lock()
		over = true
		wasLate := late
		if wasLate {
			s.late--
		}
		s.mu.Unlock()
		if wasLate {
			count(-1)
		}
	}
}

// succeeded notes that the endpoint did some work.
func (s *server) succeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.Reset()
	s.worked = time.Now()
}

// markDown records that the endpoint cannot be used with these credentials, which are nil if there is
// none, unless that is known. What fails with credentials that were replaced says nothing.
func (s *server) markDown(with *auth.Credentials, cause *failure.Error) {
	cause = s.passwords.Error(cause)
	s.mu.Lock()
	if s.down != nil || s.credentials != with {
		s.mu.Unlock()
		return
	}
	s.down = cause
	s.pin.Release()
	if cause.Reason == failure.ReasonAuthFailed {
		s.refused = nil // The server knows others than before.
	}
	s.refused.note(with, cause)
	s.backoff.Begin()
	s.mu.Unlock()
	// Calls under way fail with it. Also, a client remembers failed dials and would go on
	// refusing for a while after the endpoint came back.
	s.closeClients()
	s.wentDown(s, cause)
}

// stillDown records why a probe failed, if it could be made at all.
func (s *server) stillDown(cause *failure.Error) {
	if cause.Busy() {
		return
	}
	cause = s.passwords.Error(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = cause
	s.pin.Release()
}

// markUp lets calls through again.
func (s *server) markUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.up)
	s.down, s.up = nil, make(chan struct{})
	s.refused.forget(s.credentials)
}

// beginProbe notes that a probe begins.
func (s *server) beginProbe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.Begin()
}

// probeDelay returns how long to wait before the next probe.
func (s *server) probeDelay(refusedAuth time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.down.Reason == failure.ReasonAuthFailed
	switch {
	case refused && !s.endpoint.NeedsSecrets():
		return refusedAuth
	case refused && s.backoff.attempts == 1: // The Secret may hold another one by now.
		return 0
	default:
		return s.backoff.Delay()
	}
}

// state returns why the endpoint is down, which is nil while it is up, and the channel that
// is closed when it comes up the next time.
func (s *server) state() (down *failure.Error, up <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down, s.up
}

// end closes all there is, when the pool has forgotten the server.
func (s *server) end() {
	close(s.gone)
	s.passwords.Forget()
	s.closeClients()
	s.closePubSubs()
}
