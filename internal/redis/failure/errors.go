// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package failure sorts what goes wrong between the operator and a Redis server into the few classes a user can act on,
// with the words for each. Nothing a server sent is repeated in them: at most they tell which of the operator's own commands it named.
package failure

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
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
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Cause() }

// Cause returns the cause, for logs.
func (e *Error) Cause() string { return Shorten(e.Err.Error()) }

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
	c := classOf(err)
	return &Error{Reason: c.reason, Message: c.message, Err: err}
}

// class is what Classify decides: a reason and the words for it.
type class struct {
	reason  Reason
	message string
}

// classOf asks those who know the most first.
func classOf(err error) class {
	if farewell, ok := errors.AsType[*resp.FarewellError](err); ok {
		return classifyReply(farewell.Reply)
	}
	if reply := errorReply(err); reply != "" {
		return classifyReply(reply)
	}
	if c, ok := classifyCall(err); ok {
		return c
	}
	if c, ok := classifyTLS(err); ok {
		return c
	}
	return class{ReasonUnreachable, transportMessage(err)}
}

// classifyCall sorts what no server had a part in.
func classifyCall(err error) (c class, ok bool) {
	switch _, denied := errors.AsType[*dialguard.DeniedError](err); {
	case errors.Is(err, ErrBusy):
		return class{ReasonUnreachable, "Redis answers too slowly. Check the server for slow commands and overload."}, true
	case errors.Is(err, context.Canceled):
		return class{ReasonUnreachable, "The operator stopped before Redis answered."}, true
	case denied:
		return class{
			ReasonDialDenied,
			"The operator does not connect to this address. Use another address, or ask the administrator of the operator to allow the network " +
				"with --redis-allow-cidrs; some addresses are never allowed.",
		}, true
	}
	return class{}, false
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

// maxLogged is how many bytes a log has of what a server says. Errors of the client library may
// repeat a reply as a whole.
const maxLogged = 1 << 10

// Shorten returns what a log has of a text: the beginning, if it is long.
func Shorten(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogged], "") + "…"
}
