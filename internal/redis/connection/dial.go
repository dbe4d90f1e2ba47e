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

// moreDials is how many dials of an endpoint there may be at once while it serves.
const moreDials = 4

// dialTimeout bounds a dial with its handshake. It ends before the call that needs the connection,
// so that the call tells what it was that took too long.
const dialTimeout = callTimeout * 9 / 10

// dialCommand dials for a client, unless the endpoint is down.
func (s *server) dialCommand(with *auth.Credentials) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.dialIfUp(ctx, with, network, address, s.traffic.count)
	}
}

// dialPubSub dials for subscriptions, unless the endpoint is down.
func (s *server) dialPubSub(with *auth.Credentials) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.dialIfUp(ctx, with, network, address, nil)
	}
}

// dialProbe dials although the endpoint is down.
func (s *server) dialProbe(with *auth.Credentials) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := s.dial(ctx, with, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Guard(conn, resp.Observer{}), nil
	}
}

// dial makes a connection to the address in use, with TLS if the credentials are for that.
func (s *server) dial(ctx context.Context, with *auth.Credentials, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := s.pin.Dial(ctx, s.dialer, network, address)
	if err != nil {
		return nil, err
	}
	return with.Secure(ctx, conn)
}

// dialIfUp dials, unless the server is down. If no connection serves, and the dial fails or ends before the server has
// said anything, the server is down from then on. count keeps how many connections serve.
func (s *server) dialIfUp(ctx context.Context, with *auth.Credentials, network, address string, count func(more int)) (net.Conn, error) {
	alone, done, err := s.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	greeted := func(err error) {
		ours := errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed)
		if err != nil && !ours && alone {
			s.markDown(with, failure.Classify(err))
		}
		done()
	}
	if _, down := s.health.look(); down != nil {
		greeted(nil)
		return nil, down
	}
	conn, err := s.dial(ctx, with, network, address)
	if err != nil {
		greeted(err)
		return nil, err
	}
	return resp.Guard(conn, resp.Observer{Greeted: greeted, Serving: count}), nil
}

// turns are those to dial a server. While no connection serves, first is held from a dial until the server has said
// something. So one dial finds out that a server is down, and those waiting for their turn need not try. While one
// serves, more takes its place: a distant server must not make many wait for each other.
type turns struct{ first, more chan struct{} }

// takeTurn waits for a turn to dial, and returns whether nobody else has one. The turn lasts
// until done is called.
func (s *server) takeTurn(ctx context.Context) (alone bool, done func(), err error) {
	if !s.traffic.serves() {
		if err := enter(ctx, s.turns.first); err != nil {
			return false, nil, err
		}
		if !s.traffic.serves() {
			return true, func() { <-s.turns.first }, nil
		}
		<-s.turns.first // It was found out meanwhile.
	}
	if err := enter(ctx, s.turns.more); err != nil {
		return false, nil, err
	}
	return false, func() { <-s.turns.more }, nil
}

// enter waits for room. That there is none in time says nothing about the endpoint.
func enter(ctx context.Context, room chan<- struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", failure.ErrBusy, context.Cause(ctx))
	}
}
