// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"net/netip"
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
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if next, _ = c.nextWire(ctx, wire); next != nil {
			end(errReplaced)
		}
	})
	err = use(ctx)
	end(nil)
	waiting.Wait()
	if next != nil && !errors.Is(err, errReplaced) { // The old connection broke at the same moment.
		next.Close()
		next = nil
	}
	return next, err
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
	for {
		server, err := c.pool.acquire(c.endpoint)
		if err != nil {
			return err
		}
		due, changed := server.health.successorDue(credentials)
		if !due {
			err = c.wait(ctx, server, changed)
		}
		c.pool.release(server)
		if due || err != nil {
			return err
		}
	}
}

// wires has the open wires of one server. They are not closed together with the clients: each
// one stays open until its successor has replaced it. It is safe for concurrent use. The zero value has none.
type wires struct {
	mu   sync.Mutex
	open map[*Wire]struct{}
}

func (w *wires) add(opened *Wire) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*Wire]struct{}{}
	}
	w.open[opened] = struct{}{}
}

func (w *wires) remove(closed *Wire) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, closed)
}

// closeAll closes all connections.
func (w *wires) closeAll() {
	w.closeExcept(netip.AddrPort{}) // No connection has this address.
}

// closeExcept closes the connections that lead to another address.
func (w *wires) closeExcept(inUse netip.AddrPort) {
	w.mu.Lock()
	var found []*Wire
	for opened := range w.open {
		if opened.remote != inUse {
			found = append(found, opened)
		}
	}
	w.mu.Unlock()
	for _, opened := range found {
		opened.Close()
	}
}
