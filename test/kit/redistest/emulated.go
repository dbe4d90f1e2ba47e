// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Emulated stands in for a [Server] where there may be no redis-server, for the demo. It is miniredis, to which it adds
// the keyspace events of lists, in the order of the commands, CLIENT TRACKING of what LLEN reads, and CONFIG GET and
// SET of notify-keyspace-events. What a test shows with it holds for Redis only as far as the two were compared. It
// listens on
// 127.0.0.1 and is safe for concurrent use.
//
// It differs from Redis in this:
//   - There are only lists, and the few commands that the operator, the demo and tests use. Others are unknown
//     commands.
//   - Only keyspace channels (K) have events, and only the classes l and g.
//   - All clients wait for one that does not read its events.
type Emulated struct {
	place

	client *redis.Client

	mu      sync.Mutex
	running *emulation // nil while it is down
}

// StartEmulated starts an emulated server on a free port, with DefaultEvents.
func StartEmulated() (*Emulated, error) {
	at, err := newPlace(nil)
	if err != nil {
		return nil, err
	}
	server := &Emulated{place: at, client: newClient(at.addr, "", nil)}
	if err := server.Restart(); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// NewEmulated is StartEmulated for a test, at whose end the server is stopped.
func NewEmulated(tb testing.TB) *Emulated {
	tb.Helper()
	return forTest(tb, "an emulated Redis", func(context.Context) (*Emulated, error) { return StartEmulated() })
}

// Client returns a client, which Stop closes.
func (s *Emulated) Client() *redis.Client { return s.client }

// Kill cuts all connections and lets the port refuse new ones. The data is gone.
func (s *Emulated) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil
	}
	err := s.running.stop()
	s.running = nil
	return err
}

// Restart ends the server if it runs and starts an empty one on the same port, with DefaultEvents.
func (s *Emulated) Restart() error {
	err := s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.running, err = startEmulation(s.addr)
	}
	return err
}

// Stop ends the server.
func (s *Emulated) Stop() error { return errors.Join(s.client.Close(), s.Kill(), s.sandbox.Close()) }
