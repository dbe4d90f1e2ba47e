// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// errOver is what the client library gets when it tries to reconnect.
var errOver = errors.New("the connection is over")

// PubSub is one connection for subscriptions, from its dial to its end. Unlike that of
// the client library, which it wraps, it never reconnects and never subscribes again by
// itself: a gap in what is received always shows as an error.
//
// Its methods may be called concurrently, but [PubSub.Receive] by one goroutine only.
// They are not interrupted by the end of their context: [PubSub.Close] does that.
type PubSub struct {
	server      *server
	credentials *auth.Credentials
	client      *redis.Client
	pubSub      *redis.PubSub
	// remote is the address of the server.
	remote  netip.AddrPort
	release func()
	closing sync.Once
}

// openPubSub connects with the credentials in use, which it loads if nobody has. If that fails, the server is down from
// then on.
func (s *server) openPubSub(ctx context.Context, timeout time.Duration) (*PubSub, error) {
	began := time.Now()
	openCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	with, err := s.firstCredentials(openCtx)
	if err == nil {
		var opened *PubSub
		if opened, err = newPubSub(openCtx, s, with, s.dialPubSub(with)); err == nil {
			return opened, nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.endpoint, context.Cause(ctx))
	}
	cause := failure.Classify(err)
	if !errors.Is(err, failure.ErrBusy) && !s.traffic.excused(cause, began) {
		s.markDown(with, cause)
	}
	return nil, s.passwords.Error(cause)
}

// newPubSub connects through dial, which is called once, and sends PING. It needs no database:
// channels belong to none, and the user need not be allowed to choose one.
func newPubSub(ctx context.Context, server *server, with *auth.Credentials, dial dialFunc) (*PubSub, error) {
	var dialed atomic.Bool
	p := &PubSub{server: server, credentials: with, release: func() {}}
	p.client = newClient(server.endpoint, with, 0, func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errOver
		}
		conn, err := dial(ctx, network, address)
		if err == nil {
			p.remote = remoteOf(conn)
		}
		return conn, err
	})
	p.pubSub = p.client.Subscribe(ctx)
	if err := protect(func() error { return p.pubSub.Ping(ctx) }); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Receive returns the next message, confirmation or pong, as a type of the client
// library. Errors are [*failure.Error]s. One for which [failure.IsReply] holds is the
// server's answer to a command. Any other one, including that timeout has passed, may have come in
// the middle of a message: the connection must be closed then.
func (p *PubSub) Receive(ctx context.Context, timeout time.Duration) (message any, err error) {
	err = protect(func() error {
		message, err = p.pubSub.ReceiveTimeout(ctx, timeout)
		return err
	})
	if err == nil {
		return message, nil
	}
	cause := p.server.passwords.Error(failure.Classify(err))
	if cause.Reason == failure.ReasonAuthFailed {
		p.server.markDown(p.credentials, cause)
	}
	return message, cause
}

// Subscribe sends SUBSCRIBE.
func (p *PubSub) Subscribe(ctx context.Context, channels ...string) error {
	return p.told(p.pubSub.Subscribe(ctx, channels...))
}

// Unsubscribe sends UNSUBSCRIBE.
func (p *PubSub) Unsubscribe(ctx context.Context, channels ...string) error {
	return p.told(p.pubSub.Unsubscribe(ctx, channels...))
}

// Ping sends PING.
func (p *PubSub) Ping(ctx context.Context) error { return p.told(p.pubSub.Ping(ctx)) }

// told makes an error one that may be told.
func (p *PubSub) told(err error) error {
	if err == nil {
		return nil
	}
	return p.server.passwords.Error(failure.Classify(err))
}

// Close ends the connection and makes a waiting Receive return. It may be called again.
func (p *PubSub) Close() {
	p.closing.Do(func() {
		_ = p.pubSub.Close()
		_ = p.client.Close()
		p.release()
	})
}

// pubSubs are the open connections to one server for subscriptions. They outlive the clients: each is replaced when its
// successor has taken over. They are safe for concurrent use. The zero value has none.
type pubSubs struct {
	mu   sync.Mutex
	open map[*PubSub]struct{}
}

func (p *pubSubs) add(pubSub *PubSub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*PubSub]struct{}{}
	}
	p.open[pubSub] = struct{}{}
}

func (p *pubSubs) remove(pubSub *PubSub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, pubSub)
}

// closeAll closes all of them.
func (p *pubSubs) closeAll() {
	p.closeAstray(netip.AddrPort{}) // No server is there.
}

// closeAstray closes those that lead elsewhere than to this address.
func (p *pubSubs) closeAstray(inUse netip.AddrPort) {
	p.mu.Lock()
	var found []*PubSub
	for pubSub := range p.open {
		if pubSub.remote != inUse {
			found = append(found, pubSub)
		}
	}
	p.mu.Unlock()
	for _, pubSub := range found {
		pubSub.Close()
	}
}
