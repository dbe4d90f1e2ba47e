// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

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

// dialTimeout is the timeout for the server to accept a connection. It is shorter than the timeout of a call, so that
// the error of the call says that the dial took too long.
const dialTimeout = callTimeout * 9 / 10

// dialCommand dials connections for reads from a database, unless the endpoint is down.
//
// The library goes on with a dial whose call has given up, and keeps the connection for the next call. If the handshake
// took so long that the call has little time left, the connection is for the next call: the answer would come too late.
func (s *server) dialCommand(with *auth.Credentials, database int) dialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		began := time.Now()
		taken, err := s.permits.acquire(ctx, forReads, database, false)
		if err != nil {
			return nil, err
		}
		conn, err := s.connectIfUp(ctx, with, taken, resp.Guard, func(ctx context.Context, conn net.Conn) error {
			return s.greet(ctx, conn, with, taken, database)
		})
		if err != nil {
			return nil, err
		}
		if time.Since(began) > s.timing.call/2 {
			<-time.After(time.Until(began.Add(s.timing.call * 11 / 10))) // The call has given up by then.
		}
		return forLibrary(conn), nil
	}
}

// handshake is what follows when a server has accepted a connection. The error may be an error reply.
type handshake func(ctx context.Context, conn net.Conn) error

// connectIfUp connects, unless the server is down. If no other connection works or is being made, and this fails below
// the Redis protocol, though the caller has not given up, it marks the server down. If it fails, it releases the
// permit.
func (s *server) connectIfUp(
	ctx context.Context, with *auth.Credentials, taken *permit, guard func(net.Conn) net.Conn, greet handshake,
) (opened *permitted, err error) {
	defer func() {
		if err != nil {
			taken.release()
		}
	}()
	alone, done, err := s.acquireDial(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, down := s.current(); down != nil {
		return nil, down
	}
	conn, err := s.connect(ctx, with, guard, greet)
	if err == nil {
		return taken.hold(conn), nil
	}
	if final, ok := errors.AsType[*resp.FinalError](err); ok && failure.TooManyClients(final.Reply) {
		s.permits.giveBack()
	}
	if gaveUp := errors.Is(ctx.Err(), context.Canceled); alone && !gaveUp && belowRedis(err) {
		s.markDown(with, failure.Classify(err))
	}
	return nil, err
}

// belowRedis reports whether the error of a connection is not an answer of the server, and not because the operator has
// closed it.
func belowRedis(err error) bool {
	for _, other := range []error{context.Canceled, net.ErrClosed, failure.ErrNotMaster, resp.ErrTooLarge} {
		if errors.Is(err, other) {
			return false
		}
	}
	return !failure.IsReply(err)
}

// connect connects to the address in use, with TLS if the credentials are for TLS, and makes the handshake. The server
// must accept the connection in the time of a dial. For the rest there is as much time as for opening a subscription.
func (s *server) connect(
	ctx context.Context, with *auth.Credentials, guard func(net.Conn) net.Conn, greet handshake,
) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.openTimeout)
	defer cancel()
	accepted, err := s.accept(ctx)
	if err != nil {
		return nil, err
	}
	s.count(func(t *traffic) { t.shaking++ })
	defer s.count(func(t *traffic) { t.shaking-- })
	secured, err := with.Secure(ctx, accepted)
	if err != nil {
		return nil, err
	}
	conn := guard(secured)
	if err := greet(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, failure.BeforeFirstReply(err)
	}
	s.count(func(t *traffic) { t.met = time.Now() })
	return conn, nil
}

// acquireDial waits until the caller may dial. It returns whether no other dial is under way and no connection works.
// The caller must call done.
//
// While no connection works, the first slot is held until the handshake has ended, whether or not anybody still waits
// for the connection: one dial finds out whether the server is down, and the others need not try. While a connection
// works, there are more slots instead, so that connecting to a distant server does not take too long.
func (s *server) acquireDial(ctx context.Context) (alone bool, done func(), err error) {
	if !s.permits.serving() {
		if err := acquireSlot(ctx, s.firstDial); err != nil {
			return false, nil, err
		}
		if !s.permits.serving() {
			return true, func() { <-s.firstDial }, nil
		}
		<-s.firstDial // A connection works by now.
	}
	if err := acquireSlot(ctx, s.moreDials); err != nil {
		return false, nil, err
	}
	return false, func() { <-s.moreDials }, nil
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
