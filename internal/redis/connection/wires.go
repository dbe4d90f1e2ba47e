// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// errReplaced ends the use of a wire that has a successor.
var errReplaced = errors.New("a connection with other credentials has replaced this one")

// UseWire uses a wire and closes it. If the credentials change, it ends the use and returns the wire to move to, which is
// open before the old one is closed.
func (c *Conn) UseWire(ctx context.Context, wire *Wire, use func(context.Context) error) (next *Wire, err error) {
	defer wire.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var replacing sync.Once
	wire.onRenewed(func() {
		replacing.Do(func() {
			if next, _ = c.nextWire(ctx, wire); next != nil {
				end(errReplaced)
			}
		})
	})
	err = use(ctx)
	end(nil)
	replacing.Do(func() { /* From now on, there is no next wire. */ })
	if next != nil && !errors.Is(err, errReplaced) { // The old connection broke at the same moment.
		next.Close()
		next = nil
	}
	return next, err
}

// onRenewed has replace called once, in a goroutine, when the server is up with other credentials than those of the wire,
// unless the wire is closed before.
func (w *Wire) onRenewed(replace func()) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.replace = replace
	w.replaceRenewed()
}

// replaceRenewed calls replace if it is time, and not again: it tries until it succeeds. Call it with the lock of the server
// held.
func (w *Wire) replaceRenewed() {
	if w.replace != nil && w.server.renewed(w.credentials) {
		go w.replace()
		w.replace = nil
	}
}

// nextWire waits until the server is used with other credentials than those of a wire, and then returns a new wire with the
// current ones. It tries again until that succeeds. It fails when ctx is done or the pool is closed.
func (c *Conn) nextWire(ctx context.Context, of *Wire) (*Wire, error) {
	var backoff Backoff
	for {
		if err := c.waitRenewed(ctx, of.credentials); err != nil {
			return nil, err
		}
		backoff.Begin()
		next, err := c.openWire(ctx, true)
		if err == nil || ctx.Err() != nil {
			return next, err
		}
		select {
		case <-ctx.Done():
		case <-c.pool.ended:
		case <-time.After(backoff.Delay()):
		}
	}
}

// waitRenewed returns nil once the server is up with other credentials than these.
func (c *Conn) waitRenewed(ctx context.Context, credentials *auth.Credentials) error {
	var renewed bool
	for {
		err := c.await(ctx, func(s *server) bool {
			renewed = s.renewed(credentials)
			return renewed
		})
		if renewed || err != nil {
			return err
		}
	}
}
