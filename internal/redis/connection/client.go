// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
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

// Client sends the commands of one call.
type Client struct {
	*redis.Client

	role auth.Role // of the server
}

// Read sends commands in one round trip and returns their replies as package resp decodes them, including error
// replies. If the server must be a master, it asks in the same round trip whether it still is one, and fails if not:
// what a replica says is old. It asks last, because a replica that becomes a master has its data already.
func (c Client) Read(ctx context.Context, commands ...[]any) ([]any, error) {
	sent := commands
	if c.role == auth.RoleMaster {
		sent = slices.Concat(commands, [][]any{{helloCommand}})
	}
	raw, err := c.ReadRaw(ctx, sent...)
	if err != nil {
		return nil, err
	}
	replies, err := resp.DecodeAll(raw)
	if err != nil || len(sent) == len(commands) {
		return replies, err
	}
	if fault := faultOf(c.role, identityOf(replies[len(commands)])); fault != nil {
		return nil, fault
	}
	return replies[:len(commands)], nil
}

// ReadRaw sends commands in one round trip and returns their replies as the server sent them, for [resp.DecodeAll]. It
// does not ask what the server is.
func (c Client) ReadRaw(ctx context.Context, commands ...[]any) ([][]byte, error) {
	sent := make([]*redis.RawCmd, len(commands))
	_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, args := range commands {
			sent[i] = redis.NewRawCmd(ctx, args...)
			if err := pipe.Process(ctx, sent[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	replies := make([][]byte, len(sent))
	for i, command := range sent {
		replies[i] = command.Val()
	}
	return replies, nil
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
