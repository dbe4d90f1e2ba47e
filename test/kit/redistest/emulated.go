// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
)

// EmulatedOptions are the choices of StartEmulated. The zero value suits most tests.
type EmulatedOptions struct {
	// Events are the flags of notify-keyspace-events. Empty means DefaultEvents.
	Events string
	// ForbidConfig makes CONFIG an unknown command, as many managed services do.
	ForbidConfig bool
}

// Emulated stands in for a [Server] where tests have to be fast or where there is no
// redis-server. It is miniredis, to which it adds the keyspace events of lists, in the
// order of the commands, CLIENT TRACKING of what LLEN reads, and CONFIG GET and SET of notify-keyspace-events. It is an
// emulation: what a test shows with it holds for Redis only as far as the two were compared.
// It listens on 127.0.0.1 and is safe for concurrent use.
//
// It differs from Redis in this:
//   - There are only lists, the commands for them that do not wait, and few others. What
//     else could change a list, MULTI and EVAL among it, is an unknown command.
//   - Only keyspace channels (K) have events, and only the classes l and g.
//   - CONFIG has no other setting, and returns the flags as they were set.
//   - A client that does not read is cut off when 8 MiB wait for it, which is more than
//     50,000 events. Others do not notice it.
type Emulated struct {
	options EmulatedOptions
	sandbox *sandbox.Sandbox
	addr    string
	client  *redis.Client
	// subscribers are the connections, each a *server.Peer, that have subscribed.
	subscribers sync.Map

	mu      sync.Mutex
	stopped bool
	running *emulation // nil while it is down
}

// StartEmulated starts an emulated server on a free port.
func StartEmulated(opts EmulatedOptions) (*Emulated, error) {
	opts.Events = eventsAtStart(opts.Events)
	if !validEvents(opts.Events) {
		return nil, errors.New("unknown letter in " + eventsSetting)
	}
	box, _, addr, err := newSandbox()
	if err != nil {
		return nil, err
	}
	server := &Emulated{options: opts, sandbox: box, addr: addr, client: newClient(addr, "", nil)}
	if err := server.launch(); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// NewEmulated is StartEmulated for a test, at whose end the server is stopped.
func NewEmulated(tb testing.TB, opts EmulatedOptions) *Emulated {
	tb.Helper()
	server, err := StartEmulated(opts)
	if err != nil {
		tb.Fatalf("starting an emulated Redis: %v", err)
	}
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Errorf("stopping the emulated Redis: %v", err)
		}
	})
	return server
}

// Addr returns host:port. It stays the same over Restart.
func (s *Emulated) Addr() string { return s.addr }

// Client returns a client, which Stop closes.
func (s *Emulated) Client() *redis.Client { return s.client }

// Subscribers returns how many connections have subscribed to anything since
// StartEmulated, with those that have ended.
func (s *Emulated) Subscribers() int {
	n := 0
	for range s.subscribers.Range {
		n++
	}
	return n
}

// Kill cuts all connections and lets the port refuse new ones. The data is gone.
func (s *Emulated) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Restart ends the server if it runs and starts an empty one on the same port, with the
// events of the first start. It does not wait for anything that ctx could end.
func (s *Emulated) Restart(_ context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("restarting an emulated Redis: it was stopped")
	}
	if err := s.kill(); err != nil {
		return err
	}
	return s.launch()
}

// Stop ends the server. Stopping again does nothing.
func (s *Emulated) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	err := s.client.Close()
	if errors.Is(err, redis.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.kill(), s.sandbox.Close())
}

func (s *Emulated) launch() (err error) {
	s.running, err = startEmulation(s.addr, s.options, &s.subscribers)
	return err
}

func (s *Emulated) kill() error {
	if s.running == nil {
		return nil
	}
	err := s.running.stop()
	s.running = nil
	return err
}
