// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/redact"
)

// server is the state of one endpoint. Under its lock there is no I/O, and no other lock is taken; the lock of the pool
// may be held before.
//
// While the server is down, no caller gets a client, and only its keeper decides which credentials are in use. A
// failure marks the server down only if the failed credentials are still in use.
type server struct {
	endpoint auth.Endpoint
	// named is true if the address is a host name.
	named    bool
	timing   timing
	dialer   dialFunc
	resolver *auth.Resolver
	// passwords has the passwords that were loaded last. They are removed from what the server says.
	passwords redact.Passwords
	// permits are those of the connections, which have a lock of their own.
	permits *permits
	memory  memory
	// firstDial and moreDials have an element for each dial under way.
	firstDial, moreDials chan struct{}
	// loading is held while the credentials are loaded for the first time.
	loading chan struct{}
	// fell has a token when the server was marked down, until the keeper takes it. gone is closed when the pool has
	// forgotten the server.
	fell, gone chan struct{}
	usage

	mu sync.Mutex
	// inUse has the clients in use and their credentials. It is never nil, and each change replaces the pointer.
	inUse *clients
	down  *failure.Error // why the server is down; nil while it is up
	// changed is closed, and replaced, when the server is marked up, and when other credentials are in use.
	changed chan struct{}
	// backoff computes the delays between probes. Only a successful call resets it, so a server that only answers
	// probes is tried less and less often.
	backoff Backoff
	refused refusedLogins
	// rejected has the current values of the Secrets if they could not replace the credentials in use.
	rejected *rejection
	traffic  traffic
	// wires are open. They are not closed together with the clients: each one stays open until its successor has replaced
	// it.
	wires map[*Wire]struct{}
	pin   pin
}

// usage is what the pool records about a server. The lock of the pool guards it.
type usage struct {
	users     int
	idleSince time.Time
}

// clients are the clients of one server that use the same credentials, one for each database. No client is added once
// others are in use.
type clients struct {
	// credentials are nil until they are loaded. Until then there are no clients.
	credentials *auth.Credentials
	byDatabase  map[int]*redis.Client
}

func newClients(with *auth.Credentials) *clients {
	return &clients{credentials: with, byDatabase: map[int]*redis.Client{}}
}

// serve reports whether calls to a database use this client, which is nil before credentials are loaded. Call it with
// the lock of the server held.
func (c *clients) serve(database int, client *redis.Client) bool {
	return c.byDatabase[database] == client && (client == nil) == (c.credentials == nil)
}

// close closes all clients. Calls on them fail.
func (c *clients) close() {
	for _, client := range c.byDatabase {
		_ = client.Close()
	}
}

func (p *Pool) newServer(e auth.Endpoint) *server {
	_, unnamed := netip.ParseAddrPort(e.Address)
	s := &server{
		endpoint: e, named: unnamed != nil, timing: p.timing, dialer: p.dialer, resolver: p.resolver, permits: newPermits(p.connections),
		firstDial: make(chan struct{}, firstDials),
		moreDials: make(chan struct{}, moreDials),
		loading:   make(chan struct{}, firstLoads),
		fell:      make(chan struct{}, 1),
		gone:      make(chan struct{}),
		inUse:     newClients(nil),
		changed:   make(chan struct{}),
		wires:     map[*Wire]struct{}{},
	}
	if e.TLS.Enabled {
		s.permits.lastIdle = idleSecured
	}
	if e == (auth.Endpoint{Address: e.Address}) {
		s.inUse = newClients(&auth.Credentials{}) // There is no Secret to read.
	}
	return s
}

// current returns the credentials in use, which are nil until they are loaded, and why the server is down.
func (s *server) current() (*auth.Credentials, *failure.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse.credentials, s.down
}

// admit returns the client for a call, or an error if no call may begin now. The client is nil until credentials are
// loaded.
func (s *server) admit(database int) (*redis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return nil, s.down
	case s.traffic.late > 0:
		return nil, failure.Classify(fmt.Errorf("calling %s: %w", s.endpoint, failure.ErrBusy))
	}
	return s.client(database), nil
}

// client returns the client of a database, which dials when it is used; nil if no credentials are in use. Call it with
// the lock held.
func (s *server) client(database int) *redis.Client {
	with := s.inUse.credentials
	found := s.inUse.byDatabase[database]
	if found == nil && with != nil {
		found = newClient(s.endpoint, s.timing, s.permits.most-reservedConnections, s.dialCommand(with, database))
		s.inUse.byDatabase[database] = found
	}
	return found
}

// count changes the counts of the traffic.
func (s *server) count(change func(*traffic)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.traffic)
}

// succeeded records that the server has answered a call.
func (s *server) succeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.Reset()
	s.traffic.worked = time.Now()
}

// markDown marks the server down, unless it is down already or the credentials are no longer in use. The credentials
// are nil if there are none. The keeper learns it last, when what depends on the failed connection is gone.
func (s *server) markDown(with *auth.Credentials, cause *failure.Error) {
	cause = s.passwords.Error(cause)
	s.mu.Lock()
	if s.down != nil || s.inUse.credentials != with {
		s.mu.Unlock()
		return
	}
	s.down = cause
	s.backoff.Begin()
	s.pin.address = netip.AddrPort{}
	s.refused.failed(with, cause)
	retired := s.setInUse(with)
	s.mu.Unlock()
	// This ends the calls that use the clients. Besides, a client remembers failed dials and would fail for a while
	// after the server is back.
	retired.close()
	select {
	case s.fell <- struct{}{}:
	default:
	}
}

// stillDown records why a probe failed, unless the probe could not be made.
func (s *server) stillDown(cause *failure.Error) {
	if cause.Busy() {
		return
	}
	cause = s.passwords.Error(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = cause
	s.pin.address = netip.AddrPort{}
}

// markUp marks the server up, which has accepted these credentials. From now on they are in use.
func (s *server) markUp(accepted *auth.Credentials) {
	s.mu.Lock()
	retired := s.setInUse(accepted)
	s.refused.remove(accepted)
	s.down = nil
	s.announce()
	s.mu.Unlock()
	retired.close()
}

// replace puts credentials in use instead of others, if those are in use and the server is up. It returns the clients
// to close.
func (s *server) replace(before, after *auth.Credentials) (retired *clients, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil || s.inUse.credentials != before {
		return nil, false
	}
	return s.setInUse(after), true
}

// revoke stops the use of credentials and closes the connections that use them, unless others are in use by now.
func (s *server) revoke(inUse *auth.Credentials) {
	s.mu.Lock()
	if s.inUse.credentials != inUse {
		s.mu.Unlock()
		return
	}
	retired, wires := s.setInUse(nil), s.wiresExcept(netip.AddrPort{})
	s.mu.Unlock()
	retired.close()
	closeWires(wires)
}

// setInUse replaces the clients in use, and returns those to close. Call it with the lock held.
func (s *server) setInUse(credentials *auth.Credentials) (retired *clients) {
	retired = s.inUse
	s.inUse = newClients(credentials)
	if credentials != retired.credentials {
		s.announce()
	}
	return retired
}

// announce wakes those who wait for a change, and has the wires with other credentials replaced. Call it with the lock
// held.
func (s *server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	for opened := range s.wires {
		opened.replaceRenewed()
	}
}

// renewed reports whether the server is up with other credentials than these. Call it with the lock held.
func (s *server) renewed(former *auth.Credentials) bool {
	return s.down == nil && s.inUse.credentials != nil && s.inUse.credentials != former
}

// closeClients closes the clients in use. New ones are made when they are needed.
func (s *server) closeClients() {
	s.mu.Lock()
	retired := s.setInUse(s.inUse.credentials)
	s.mu.Unlock()
	retired.close()
}

// closeDatabase closes the client of a database, if there is one.
func (s *server) closeDatabase(database int) {
	s.mu.Lock()
	client := s.inUse.byDatabase[database]
	delete(s.inUse.byDatabase, database)
	s.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

// end closes all connections, after the pool has forgotten the server.
func (s *server) end() {
	close(s.gone)
	s.closeClients()
	s.mu.Lock()
	wires := s.wiresExcept(netip.AddrPort{}) // None has this address.
	s.mu.Unlock()
	closeWires(wires)
}

// wiresExcept returns the wires that lead to another address. Call it with the lock held.
func (s *server) wiresExcept(inUse netip.AddrPort) (found []*Wire) {
	for opened := range s.wires {
		if opened.remote != inUse {
			found = append(found, opened)
		}
	}
	return found
}

func closeWires(wires []*Wire) {
	for _, opened := range wires {
		opened.Close()
	}
}
