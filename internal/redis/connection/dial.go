// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const (
	// firstLoads is how many callers may load the credentials of an endpoint for the first time at once. firstDials is
	// how many may dial it at once while no connection works.
	firstLoads = 1
	firstDials = 1
	// moreDials is how many callers may dial an endpoint at once while a connection works.
	moreDials = 4
)

// dialTimeout is the timeout of a dial, including the TLS handshake. It is shorter than the timeout of a call, so that
// the error of the call says that the dial took too long.
const dialTimeout = callTimeout * 9 / 10

// dialCommand dials connections for reads, unless the endpoint is down.
func (s *server) dialCommand(with *auth.Credentials) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, observer, err := s.dialIfUp(ctx, with, network, address)
		if err != nil {
			return nil, err
		}
		observer.Serving = s.traffic.count
		return resp.Guard(conn, observer), nil
	}
}

// dialPubSub dials connections for subscriptions, unless the endpoint is down.
func (s *server) dialPubSub(with *auth.Credentials) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, observer, err := s.dialIfUp(ctx, with, network, address)
		if err != nil {
			return nil, err
		}
		return resp.GuardMessages(conn, observer), nil
	}
}

// dialProbe dials even if the endpoint is down.
func (s *server) dialProbe(with *auth.Credentials) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := s.dial(ctx, with, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Guard(conn, resp.Observer{}), nil
	}
}

// dial connects to the address in use, with TLS if the credentials are for TLS.
func (s *server) dial(ctx context.Context, with *auth.Credentials, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.dial)
	defer cancel()
	conn, err := s.pin.Dial(ctx, s.dialer, network, address)
	if err != nil {
		return nil, err
	}
	return with.Secure(ctx, conn)
}

// dialIfUp dials, unless the server is down. It marks the server down if no other connection works and the dial fails,
// or the connection ends before the server has sent anything. The caller must guard the connection with the observer.
func (s *server) dialIfUp(ctx context.Context, with *auth.Credentials, network, address string) (net.Conn, resp.Observer, error) {
	alone, done, err := s.acquireDial(ctx)
	if err != nil {
		return nil, resp.Observer{}, err
	}
	greeted := func(err error) {
		ours := errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed)
		if err != nil && !ours && alone {
			s.markDown(with, failure.Classify(err))
		}
		done()
	}
	if _, down := s.health.current(); down != nil {
		greeted(nil)
		return nil, resp.Observer{}, down
	}
	conn, err := s.dial(ctx, with, network, address)
	if err != nil {
		greeted(err)
		return nil, resp.Observer{}, err
	}
	return conn, resp.Observer{Greeted: greeted}, nil
}

// dialSlots limit the dials to a server. While no connection works, first is held from the dial until the server has
// sent something: one dial finds out whether the server is down, and the others need not try. While a connection works,
// more applies instead, so that connecting to a distant server does not take too long.
type dialSlots struct{ first, more chan struct{} }

// acquireDial waits until the caller may dial. It returns whether no other dial is under way and no connection works.
// The caller must call done.
func (s *server) acquireDial(ctx context.Context) (alone bool, done func(), err error) {
	if !s.traffic.serves() {
		if err := acquireSlot(ctx, s.dialSlots.first); err != nil {
			return false, nil, err
		}
		if !s.traffic.serves() {
			return true, func() { <-s.dialSlots.first }, nil
		}
		<-s.dialSlots.first // A connection works by now.
	}
	if err := acquireSlot(ctx, s.dialSlots.more); err != nil {
		return false, nil, err
	}
	return false, func() { <-s.dialSlots.more }, nil
}

// acquireSlot waits for a free slot. The error is [failure.ErrBusy], because it does not mean that the endpoint has
// failed.
func acquireSlot(ctx context.Context, slots chan<- struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", failure.ErrBusy, context.Cause(ctx))
	}
}
