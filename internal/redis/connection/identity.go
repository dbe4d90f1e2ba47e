// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// helloCommand is the command whose reply says what a server is. Without arguments it needs no permission.
const helloCommand = "hello"

// identity is what a server says that it is. What it does not say is empty.
type identity struct{ mode, role string }

// The values in the reply to HELLO that matter here.
const (
	sentinelMode = "sentinel"
	masterRole   = "master"
	replicaRole  = "replica"
)

// identityOf parses the reply to HELLO. A server that does not know the command says nothing.
func identityOf(reply any) identity {
	var is identity
	is.mode, _ = resp.Field(reply, "mode").(string)
	is.role, _ = resp.Field(reply, "role").(string)
	return is
}

// recognize records what the server of a new connection is, and returns an error if it is not what the endpoint says.
func recognize(role auth.Role, taken *seat, is identity) error {
	if taken != nil {
		taken.recognize(is)
	}
	if fault := faultOf(role, is); fault != nil {
		return fault
	}
	return nil
}

// faultOf returns why a server is not what it must be; nil if it is.
func faultOf(role auth.Role, is identity) *failure.Error {
	switch {
	case role == auth.RoleSentinel && is.mode != "" && is.mode != sentinelMode:
		return &failure.Error{
			Reason: failure.ReasonWrongMode,
			Message: "With mode Sentinel, spec.redis.addresses has the addresses of the sentinels, but this is the address of a Redis server. " +
				"Write those of the sentinels, or mode: Standalone.",
			Err: errors.New("the server is not a sentinel"),
		}
	case role != auth.RoleSentinel && is.mode == sentinelMode:
		return &failure.Error{
			Reason: failure.ReasonWrongMode,
			Message: "The address is that of a sentinel, which has no keys. Write mode: Sentinel and sentinel.masterName in spec.redis, " +
				"or the address of the Redis server.",
			Err: errors.New("the server is a sentinel"),
		}
	case role == auth.RoleMaster && is.role != masterRole:
		return notMaster()
	}
	return nil
}

func notMaster() *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The server is not the master any more. The operator asks for the new one; see that the failover ends.",
		Err:     failure.ErrNotMaster,
	}
}

// Replica reports whether an open connection to an endpoint leads to a server that said that it is a replica. There may be
// several servers behind one address, such as that of a Service.
func (p *Pool) Replica(e auth.Endpoint) bool {
	p.mu.Lock()
	server := p.servers[e]
	p.mu.Unlock()
	return server != nil && server.seats.anyReplica()
}

// Client sends the commands of one call.
type Client struct {
	*redis.Client

	role auth.Role // of the server
}

// Read sends commands in one round trip and returns their replies as package resp decodes them, including error replies.
// If the server must be a master, it asks in the same round trip whether it still is one, and fails if not: what a
// replica says is old. It asks last, because a replica that becomes a master has its data already.
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
