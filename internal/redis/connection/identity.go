// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"errors"

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
		return failure.NotMaster()
	}
	return nil
}

// Replica reports whether an open connection to an endpoint leads to a server that said that it is a replica. There may
// be several servers behind one address, such as that of a Service.
func (p *Pool) Replica(e auth.Endpoint) bool {
	p.mu.Lock()
	server := p.servers[e]
	p.mu.Unlock()
	return server != nil && server.permits.anyReplica()
}
