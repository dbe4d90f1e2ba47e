// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// errConnectionOver is what the client library gets when it wants to reconnect.
var errConnectionOver = errors.New("the connection is over")

// PubSub is one connection for subscriptions, from its dial to its end. Unlike that of
// the client library, which it wraps, it never reconnects and never subscribes again by
// itself: a gap in what is received is always visible as an error.
//
// Its methods may be called concurrently, but for [PubSub.Receive], which belongs to one
// goroutine. The first error that is not a reply ends the connection.
type PubSub struct {
	client  *redis.Client
	pubSub  *redis.PubSub
	ctx     context.Context //nolint:containedctx // The library takes one per call and ignores its end.
	onClose func()
	closing sync.Once
}

// openPubSub dials through dial, once.
func openPubSub(ctx context.Context, to *peer, dial dialFunc, timeout time.Duration) (*PubSub, error) {
	var dialed atomic.Bool
	client := newClient(to.endpoint, func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errConnectionOver
		}
		return dial(ctx, network, address)
	})
	p := &PubSub{client: client, pubSub: client.Subscribe(ctx), ctx: ctx}
	openCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := protect(func() error { return p.pubSub.Ping(openCtx) }); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Receive waits for the next message, confirmation, pong or error reply, for no longer
// than timeout. Any other error, including a timeout, may have come in the middle of a
// reply: the connection must be closed then.
func (p *PubSub) Receive(timeout time.Duration) (message any, err error) {
	err = protect(func() error {
		message, err = p.pubSub.ReceiveTimeout(p.ctx, timeout)
		return err
	})
	return message, err
}

// Subscribe sends SUBSCRIBE. Its outcome is received.
func (p *PubSub) Subscribe(channels ...string) error { return p.pubSub.Subscribe(p.ctx, channels...) }

// Unsubscribe sends UNSUBSCRIBE. Its outcome is received.
func (p *PubSub) Unsubscribe(channels ...string) error {
	return p.pubSub.Unsubscribe(p.ctx, channels...)
}

// Ping sends PING. The answer is received.
func (p *PubSub) Ping() error { return p.pubSub.Ping(p.ctx) }

// Close ends the connection and makes a waiting Receive return. It may be called twice.
func (p *PubSub) Close() {
	p.closing.Do(func() {
		_ = p.pubSub.Close()
		_ = p.client.Close()
		if p.onClose != nil {
			p.onClose()
		}
	})
}
