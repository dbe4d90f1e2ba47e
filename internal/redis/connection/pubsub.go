// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// errNoReconnect is returned to the client library when it tries to reconnect.
var errNoReconnect = errors.New("a subscription connection does not reconnect")

// PubSub is one connection for subscriptions. It wraps the PubSub of the client library, but never reconnects and never
// subscribes again by itself, so every interruption is an error.
//
// Its methods may be called concurrently, except for [PubSub.Receive]. The end of a context does not interrupt them;
// call Close for that.
type PubSub struct {
	dedicated
	pubSub *redis.PubSub
}

// openPubSub connects with the credentials in use, and loads them if necessary. If it fails, the server is marked down.
func (s *server) openPubSub(ctx context.Context, timeout time.Duration) (*PubSub, error) {
	began := time.Now()
	openCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	with, err := s.firstCredentials(openCtx)
	if err == nil {
		var opened *PubSub
		if opened, err = newPubSub(openCtx, s, with); err == nil {
			return opened, nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.endpoint, context.Cause(ctx))
	}
	cause := failure.Classify(err)
	if !errors.Is(err, failure.ErrBusy) && !errors.Is(err, failure.ErrNotMaster) && !s.traffic.excused(cause, began) {
		s.markDown(with, cause)
	}
	return nil, s.passwords.Error(cause)
}

// newPubSub connects and sends PING. It selects no database: pub/sub does not depend on the database, and the user may not
// be allowed to SELECT.
func newPubSub(ctx context.Context, server *server, with *auth.Credentials) (*PubSub, error) {
	conn, err := server.dialPubSub(ctx, with)
	if err != nil {
		return nil, err
	}
	var dialed atomic.Bool
	p := &PubSub{dedicated: dedicated{server: server, credentials: with, remote: remoteOf(conn)}}
	client := newClient(server.endpoint, with, server.timing, 1, func(context.Context, string, string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errNoReconnect
		}
		return forLibrary(conn), nil
	})
	p.pubSub = client.Subscribe(ctx)
	p.disconnect = func() {
		_ = conn.Close()
		_ = p.pubSub.Close()
		_ = client.Close()
	}
	if err := protect(func() error { return p.pubSub.Ping(ctx) }); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Receive returns the next message, confirmation or pong, in a type of the client library. Errors are
// [*failure.Error]s. If [failure.IsReply] is true for the error, it is the reply to a command, and the connection can
// still be used. After any other error, including a timeout, close the connection: part of a message may be lost.
func (p *PubSub) Receive(ctx context.Context, timeout time.Duration) (message any, err error) {
	err = protect(func() error {
		message, err = p.pubSub.ReceiveTimeout(ctx, timeout)
		return err
	})
	if err == nil {
		return message, nil
	}
	return message, p.failed(err)
}

// Subscribe sends SUBSCRIBE.
func (p *PubSub) Subscribe(ctx context.Context, channels ...string) error {
	return p.classified(p.pubSub.Subscribe(ctx, channels...))
}

// Unsubscribe sends UNSUBSCRIBE.
func (p *PubSub) Unsubscribe(ctx context.Context, channels ...string) error {
	return p.classified(p.pubSub.Unsubscribe(ctx, channels...))
}

// Ping sends PING.
func (p *PubSub) Ping(ctx context.Context) error { return p.classified(p.pubSub.Ping(ctx)) }
