// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/redact"
)

// server is the state of one endpoint.
//
// Each of its parts has a lock of its own, and no method of a part calls another part while it holds its lock. So locks
// are never nested, except that the lock of the pool may be held while the lock of a part is taken. If two facts must
// change together, they are in the same part, or the code compares a pointer that changes together with the other fact.
type server struct {
	endpoint auth.Endpoint
	// named is true if the address is a host name.
	named  bool
	timing timing
	dialer dialFunc
	// passwords has the passwords that were loaded last. They are removed from what the server says.
	passwords redact.Passwords

	health      *health
	traffic     traffic
	credentials credentials
	wires       wires
	dialSlots   dialSlots
	// pin has the address that all connections to the endpoint use.
	pin    pin
	seats  *seats
	memory memory
	// lookingUp is true while the host name is being looked up, and lookedUpInVain if the last look-up had no answer.
	lookingUp, lookedUpInVain atomic.Bool
	usage

	// gone is closed when the pool has forgotten the server.
	gone chan struct{}
	// wentDown is called after the server was marked down and its clients were closed.
	wentDown func(*server, *failure.Error)
}

// usage is what the pool records about a server. The lock of the pool guards it.
type usage struct {
	users     int
	idleSince time.Time
	rereadAt  time.Time // when the Secrets are due to be read again
}

func (p *Pool) newServer(e auth.Endpoint) *server {
	_, unnamed := netip.ParseAddrPort(e.Address)
	s := &server{
		seats:    newSeats(p.connections),
		endpoint: e, named: unnamed != nil, timing: p.timing, dialer: p.dialer, wentDown: p.wentDown,
		gone:        make(chan struct{}),
		credentials: credentials{resolver: p.resolver, loading: make(chan struct{}, firstLoads)},
		dialSlots:   dialSlots{first: make(chan struct{}, firstDials), more: make(chan struct{}, moreDials)},
	}
	if e.TLS.Enabled {
		s.seats.lastIdle = idleSecured
	}
	first := &clients{connect: s.newClient}
	if e == (auth.Endpoint{Address: e.Address}) {
		first = first.successor(&auth.Credentials{}) // There is no Secret to read.
	}
	s.health = newHealth(first)
	return s
}

// newClient returns a client of a database. The client dials when it is used.
func (s *server) newClient(with *auth.Credentials, database int) *redis.Client {
	return newClient(s.endpoint, with, s.timing, s.seats.most-reservedConnections, s.dialCommand(with, database))
}

// admit returns the client for a call, or an error if no call may begin now. The client is nil until credentials are
// loaded.
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

// succeeded records that the server has answered a call.
func (s *server) succeeded() {
	s.health.succeeded()
	s.traffic.answered()
}

// markDown marks the server down, unless it is down already or the credentials are no longer in use. The credentials
// are nil if there are none.
//
// It starts the prober last. So everything that depends on the failed connection is gone before the prober can mark the
// server up.
func (s *server) markDown(with *auth.Credentials, cause *failure.Error) {
	cause = s.passwords.Error(cause)
	retired, wentDown := s.health.fail(with, cause)
	if !wentDown {
		return
	}
	s.pin.Release()
	s.credentials.recordFailure(with, cause)
	// This ends the calls that use the clients. Besides, a client remembers failed dials and would fail for a while
	// after the server is back.
	retired.close()
	s.wentDown(s, cause)
}

// stillDown records why a probe failed, unless the probe could not be made.
func (s *server) stillDown(cause *failure.Error) {
	if cause.Busy() {
		return
	}
	s.health.stillDown(s.passwords.Error(cause))
	s.pin.Release()
}

// markUp marks the server up, after it has accepted the credentials in use. It records that first: once the server is
// up it may reject them again, and that record must not be overwritten.
func (s *server) markUp() {
	inUse, _ := s.health.current()
	s.credentials.recordAccepted(inUse.credentials)
	s.health.restore()
}

// end closes all connections, after the pool has forgotten the server.
func (s *server) end() {
	close(s.gone)
	s.closeClients()
	s.wires.closeAll()
}
