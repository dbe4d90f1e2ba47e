// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

const (
	bufferBytes = 4 << 10
	// connectionLifetime is for addresses behind which the server changes, such as the address of a Service or a load
	// balancer: an open connection stays with the server that it was made to, and a new one reaches the current server.
	connectionLifetime = 15 * time.Minute
	// dialAttempts is how often a call dials if it needs a connection. callRetries is how often a call is repeated:
	// once, because the server may have closed the pooled connection.
	dialAttempts = 1
	callRetries  = 1
)

// dialFunc is the signature of [net.Dialer.DialContext].
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns a client. It honors the deadlines of contexts, and gets its connections from dial, which makes the
// handshake: the client knows neither the database nor the password. It has at most so many connections.
func newClient(e auth.Endpoint, timing timing, connections int, dial dialFunc) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network:                  "tcp",
		Addr:                     e.Address,
		Dialer:                   dial,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ContextTimeoutEnabled:    true,
		DialTimeout:              timing.openTimeout + timing.call,
		ReadTimeout:              timing.call,
		WriteTimeout:             timing.call,
		DialerRetries:            dialAttempts,
		MaxRetries:               callRetries,
		PoolSize:                 connections,
		PipelinePoolSize:         -1,
		ReadBufferSize:           bufferBytes,
		WriteBufferSize:          bufferBytes,
		ConnMaxLifetime:          connectionLifetime,
	})
}

// protect turns a panic of the client library into an error. The library asserts the types of replies, and no reply of
// a server may crash the operator.
func protect(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed reply: %v", r)
		}
	}()
	return call()
}
