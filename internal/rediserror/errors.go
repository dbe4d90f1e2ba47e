// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package rediserror sorts what goes wrong between the operator and a Redis server into the few classes a user can act on,
// with the words for each. Nothing a server sent is repeated in them.
package rediserror

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/resp"
)

// Reason is the class of an error: what a user has to look at. Its values are the
// reasons of the status condition that reports them.
type Reason string

// The reasons.
const (
	// ReasonUnreachable covers everything that keeps the server from answering,
	// whether in the network or in the server.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonAuthFailed means that the server wants other credentials.
	ReasonAuthFailed Reason = "AuthFailed"
	// ReasonPermissionDenied means that the user lacks a command, key or channel.
	ReasonPermissionDenied Reason = "PermissionDenied"
	// ReasonWrongType means that a key holds another type than expected.
	ReasonWrongType Reason = "WrongType"
	// ReasonDatabaseNotFound means that the server has no database of that number.
	ReasonDatabaseNotFound Reason = "DatabaseNotFound"
	// ReasonTLSFailed means that one of the two could not prove to the other who it is.
	ReasonTLSFailed Reason = "TLSFailed"
	// ReasonDialDenied means that the address is one that is not connected to.
	ReasonDialDenied Reason = "DialDenied"
	// ReasonSecretNotFound means that there is no such Secret, or no such key in it.
	ReasonSecretNotFound Reason = "SecretNotFound"
	// ReasonSecretInvalid means that a value of a Secret is not what it should be.
	ReasonSecretInvalid Reason = "SecretInvalid"
	// ReasonSecretForbidden means that a Secret may not be read.
	ReasonSecretForbidden Reason = "SecretForbidden"
	// ReasonTooManyServers means that a tenant claims more servers than it may.
	ReasonTooManyServers Reason = "TooManyServers"
)

var (
	// ErrBusy is the cause of an error of a call that was not made, because the endpoint
	// has not answered an earlier one for 100 ms. It says nothing lasting about the endpoint.
	ErrBusy = errors.New("an earlier call is still unanswered")

	// ErrClosed is the cause of an error of a call made after the connections were closed.
	ErrClosed = errors.New("the connection pool is closed")
)

// Error is a classified error.
type Error struct {
	// Reason is the class.
	Reason Reason
	// Message says in fixed words what is wrong and what to do about it. It holds nothing
	// that varies between two occurrences and nothing that came over the network.
	Message string
	// Err is the cause. It may hold addresses, ports and bytes sent by the server: it
	// belongs in a log, not in a status.
	Err error
}

// Error returns the cause with its class, for logs.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Busy says that the call was not made, since the endpoint keeps somebody else waiting. It says
// nothing about what was asked for. It is false for nil.
func (e *Error) Busy() bool { return e != nil && errors.Is(e.Err, ErrBusy) }

// Classify finds the class of an error. It returns nil for nil, and an [Error] already
// in the chain as it is.
func Classify(err error) *Error {
	if err == nil {
		return nil
	}
	if classified, ok := errors.AsType[*Error](err); ok {
		return classified
	}
	c := classifyTransport(err)
	if farewell, ok := errors.AsType[*resp.FarewellError](err); ok {
		c = classifyReply(farewell.Reply)
	} else if reply := errorReply(err); reply != "" {
		c = classifyReply(reply)
	}
	return &Error{Reason: c.reason, Message: c.message, Err: err}
}

// IsReply reports whether err is an error reply of the server. The connection that
// brought it is still good.
func IsReply(err error) bool { return errorReply(err) != "" }

// IsRefusal reports whether err is the reply of a server that does not do the command, or
// not for this user. It will answer the same the next time. Managed services have words of
// their own for that.
func IsRefusal(err error) bool {
	reply := errorReply(err)
	return strings.HasPrefix(reply, "NOPERM") || strings.HasPrefix(reply, "ERR ") && !TooManyClients(reply)
}

// TooManyClients reports whether a reply says that the server accepts no more clients.
func TooManyClients(reply string) bool { return strings.HasPrefix(reply, tooManyClients) }

const tooManyClients = "ERR max number of clients reached"

// errorReply returns the text of an error reply, or "" if err is none.
func errorReply(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return reply.Error()
	}
	return ""
}

// class is what Classify decides: a reason and the words for it.
type class struct {
	reason  Reason
	message string
}

// replyClasses are looked up by how an error reply begins; the first match counts.
var replyClasses = []struct {
	prefix  string
	reason  Reason
	message string
}{
	{
		"NOAUTH", ReasonAuthFailed,
		"Redis demands a password, and the operator can give none yet. Let the user default in without one.",
	},
	{
		"WRONGPASS", ReasonAuthFailed,
		"Redis refused the credentials. Check the user name and the password, and that the user is enabled.",
	},
	{
		"NOPERM", ReasonPermissionDenied,
		"The Redis user may not do this. Grant it LLEN for a list, SCARD for a set, HLEN for a hash, ZCARD or else ZCOUNT and ZRANGE " +
			"for a sorted set, XLEN, XINFO GROUPS and XRANGE for a stream, besides SUBSCRIBE, read access to the key, " +
			"and the channel __keyspace@0__:<key>.",
	},
	{
		"WRONGTYPE", ReasonWrongType,
		"A key holds something else than the spec says; spec.queueName is for a list. " +
			"Correct the type in spec.queues. Name another key, or move away what is stored there.",
	},
	{
		"LOADING", ReasonUnreachable,
		"Redis is loading its data set. Wait until it is done.",
	},
	{
		"BUSY ", ReasonUnreachable,
		"Redis is blocked by a script that takes too long. Wait for the script, or stop it with SCRIPT KILL.",
	},
	{
		"MASTERDOWN", ReasonUnreachable,
		"The server is a replica that has lost its master and serves no stale data. Use the address of the master.",
	},
	{
		"MOVED", ReasonUnreachable,
		"The server belongs to a Redis Cluster and does not hold the key. Use a server that is not in cluster mode.",
	},
	{
		"CLUSTERDOWN", ReasonUnreachable,
		"The server belongs to a Redis Cluster that is down. Repair the cluster.",
	},
	{
		"DENIED", ReasonUnreachable,
		"Redis runs in protected mode and answers only on its own host. Set a password or bind it to the network.",
	},
	{
		tooManyClients, ReasonUnreachable,
		"Redis accepts no more clients. Raise maxclients, or find out who holds the connections.",
	},
}

func classifyReply(reply string) class {
	for _, c := range replyClasses {
		if strings.HasPrefix(reply, c.prefix) {
			return class{c.reason, c.message}
		}
	}
	return class{ReasonUnreachable, "Redis answered with an error. See the operator's log for its words."}
}

// classifyTransport sorts what went wrong below the protocol, from the most to the
// least specific.
func classifyTransport(err error) class {
	var dns *net.DNSError
	var network net.Error
	var message string
	switch {
	case errors.Is(err, ErrBusy):
		message = "Redis answers too slowly. Look for slow commands and overload on the server."
	case errors.Is(err, context.Canceled):
		message = "The operator stopped before Redis answered."
	case errors.As(err, &dns):
		message = "The host name of the Redis server cannot be resolved. Check the address and DNS."
	case errors.Is(err, syscall.ECONNREFUSED):
		message = "The connection to Redis was refused. Check the port, and that the server runs."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		message = "There is no route to the Redis server. Check the address and the network policies."
	case errors.Is(err, resp.ErrTooLarge):
		message = "The server sends replies no queue of the operator can have. Check that the address is that of a Redis server, " +
			"and that no message of a sorted set is larger than 1 MiB."
	case IsTimeout(err):
		message = "Redis did not answer in time. Check the address, the network policies and the load of the server."
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, ErrClosed), errors.Is(err, redis.ErrClosed), errors.As(err, &network):
		message = "The connection to Redis broke. Check that the server runs, does not close the operator's connections and expects no TLS."
	default:
		message = "The server does not speak the Redis protocol. Check that the address is that of a Redis server without TLS."
	}
	return class{ReasonUnreachable, message}
}

// IsTimeout reports whether err says that something took too long.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}
