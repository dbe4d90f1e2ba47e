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
	// firstLoads is how many load the access of an endpoint at once for the first time, and firstDials how many dial it at once while no
	// connection serves.
	firstLoads = 1
	firstDials = 1
	// moreDials is how many dials of an endpoint there may be at once while it serves.
	moreDials = 4
)

// dialTimeout bounds a dial with its handshake. It ends before the call that needs the connection,
// so that the call tells what it was that took too long.
const dialTimeout = callTimeout * 9 / 10

// dialCommand dials for a client, unless the endpoint is down.
func (p *peer) dialCommand(with *auth.Access) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.dialIfUp(ctx, with, network, address, p.count)
	}
}

// dialPubSub dials for subscriptions, unless the endpoint is down.
func (p *peer) dialPubSub(with *auth.Access) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.dialIfUp(ctx, with, network, address, nil)
	}
}

// dialProbe dials although the endpoint is down.
func (p *peer) dialProbe(with *auth.Access) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := p.dial(ctx, with, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Guard(conn, resp.Observer{}), nil
	}
}

// dial makes a connection to the address in use, which is as secure as the access says.
func (p *peer) dial(ctx context.Context, with *auth.Access, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := p.pin.Dial(ctx, p.dialer, network, address)
	if err != nil {
		return nil, err
	}
	return with.Secure(ctx, conn)
}

// count keeps how many connections of the clients serve.
func (p *peer) count(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += more
}

// dialIfUp dials, unless the endpoint is down. If no connection serves, and the dial fails
// or ends before the server has said anything, it is down from then on. count keeps how many
// serve.
func (p *peer) dialIfUp(ctx context.Context, with *auth.Access, network, address string, count func(more int)) (net.Conn, error) {
	alone, done, err := p.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	greeted := func(err error) {
		ours := errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed)
		if err != nil && !ours && alone {
			p.markDown(with, failure.Classify(err))
		}
		done()
	}
	if down, _ := p.state(); down != nil {
		greeted(nil)
		return nil, down
	}
	conn, err := p.dial(ctx, with, network, address)
	if err != nil {
		greeted(err)
		return nil, err
	}
	return resp.Guard(conn, resp.Observer{Greeted: greeted, Serving: count}), nil
}

// takeTurn waits for a turn to dial, and returns whether nobody else has one. The turn lasts
// until done is called.
func (p *peer) takeTurn(ctx context.Context) (alone bool, done func(), err error) {
	if !p.serves() {
		if err := enter(ctx, p.dialing); err != nil {
			return false, nil, err
		}
		if !p.serves() {
			return true, func() { <-p.dialing }, nil
		}
		<-p.dialing // It was found out meanwhile.
	}
	if err := enter(ctx, p.moreDialing); err != nil {
		return false, nil, err
	}
	return false, func() { <-p.moreDialing }, nil
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

func (p *peer) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > 0
}
