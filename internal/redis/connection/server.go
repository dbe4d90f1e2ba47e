// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/redact"
)

// server is what the pool knows about one endpoint.
//
// Each of its parts has a lock of its own, and no method of a part calls another part with its lock held. So locks never
// nest, but for that of the pool, which may be held while one of a part is taken. What has to be true of two facts at
// once is in one part, or compares a pointer that changes with the other fact.
type server struct {
	endpoint auth.Endpoint
	dialer   dialFunc
	// passwords are those that were loaded last. What the server says is told without them.
	passwords *redact.Passwords

	health      *health
	traffic     traffic
	credentials credentials
	pubSubs     pubSubs
	turns       turns
	// pin is the address of the endpoint that all connections lead to.
	pin pin
	usage

	// gone is closed when the pool has forgotten the server.
	gone chan struct{}
	// wentDown is called after the server went down, when nothing that was made before is used any more.
	wentDown func(*server, *failure.Error)
}

// usage is what the pool notes about a server. The lock of the pool guards it.
type usage struct {
	users     int
	idleSince time.Time
	rereadAt  time.Time // when the Secrets are to be read again
}

func (p *Pool) newServer(e auth.Endpoint) *server {
	s := &server{
		endpoint: e, dialer: p.dialer, passwords: p.passwords.Add(), wentDown: p.wentDown, gone: make(chan struct{}),
		credentials: credentials{resolver: p.resolver, loading: make(chan struct{}, 1)},
		turns:       turns{first: make(chan struct{}, 1), more: make(chan struct{}, moreDials)},
	}
	first := &clients{connect: s.connect}
	if e == (auth.Endpoint{Address: e.Address}) {
		first = first.successor(&auth.Credentials{}) // Nothing is to be loaded.
	}
	s.health = newHealth(first)
	return s
}

// connect makes a client, which dials when it is used.
func (s *server) connect(with *auth.Credentials, database int) *redis.Client {
	return newClient(s.endpoint, with, database, s.dialCommand(with))
}

// admit lets a call begin, or says at once why not. The client is nil until credentials are loaded.
func (s *server) admit(database int) (*redis.Client, error) {
	inUse, err := s.health.usable()
	if err != nil {
		return nil, err
	}
	if s.traffic.slow() {
		return nil, failure.Classify(fmt.Errorf("calling %s: %w", s.endpoint, failure.ErrBusy))
	}
	return inUse.get(database), nil
}

// succeeded notes that the server did some work.
func (s *server) succeeded() {
	s.health.succeeded()
	s.traffic.answered()
}

// markDown records that the server cannot be used with these credentials, which are nil if there are none, unless that
// is known or they are not in use any more.
//
// The prober starts at the end. So all that the failure leaves behind is gone before anybody can bring the server up.
func (s *server) markDown(with *auth.Credentials, cause *failure.Error) {
	cause = s.passwords.Error(cause)
	retired, wentDown := s.health.fail(with, cause)
	if !wentDown {
		return
	}
	s.pin.Release()
	s.credentials.lapse(with, cause)
	// Calls under way fail with it. Also, a client remembers failed dials and would go on
	// refusing for a while after the server came back.
	retired.close()
	s.wentDown(s, cause)
}

// stillDown records why a probe failed, if it could be made at all.
func (s *server) stillDown(cause *failure.Error) {
	if cause.Busy() {
		return
	}
	s.health.stillDown(s.passwords.Error(cause))
	s.pin.Release()
}

// markUp lets calls through again. The server accepts the credentials in use. That is noted before: once it is up, it
// may refuse them again, and that must not be forgotten.
func (s *server) markUp() {
	inUse, _ := s.health.look()
	s.credentials.accept(inUse.credentials)
	s.health.restore()
}

// end closes all there is, when the pool has forgotten the server.
func (s *server) end() {
	close(s.gone)
	s.passwords.Forget()
	s.closeClients()
	s.pubSubs.closeAll()
}
