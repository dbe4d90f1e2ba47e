// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package failure classifies the errors of connections to Redis. Each class has a reason and a message that says what
// to correct. A message contains no text of the server: at most the name of the command, among those that the operator
// runs, that the server rejected. Package topology adds an address that servers have announced, in bounds.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// Reason is the class of an error. Its values are also the reasons of the conditions that report them.
type Reason string

// The reasons. docs/operations/troubleshooting.md describes each of them.
const (
	// ReasonUnreachable means that the server does not answer, or answers that it cannot serve requests now. It is also
	// the reason of errors with no other class.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonAuthFailed means that the server requires credentials or rejects them.
	ReasonAuthFailed Reason = "AuthFailed"
	// ReasonPermissionDenied means that the Redis user lacks the permission for a command, a key or a channel.
	ReasonPermissionDenied Reason = "PermissionDenied"
	// ReasonWrongType means that a key has another type than the spec says.
	ReasonWrongType Reason = "WrongType"
	// ReasonDatabaseNotFound means that the server has no database with this number.
	ReasonDatabaseNotFound Reason = "DatabaseNotFound"
	// ReasonTLSFailed means that the operator could not verify the server, that the server rejected the operator's
	// certificate, or that nothing says whether to send credentials encrypted.
	ReasonTLSFailed Reason = "TLSFailed"
	// ReasonDialDenied means that the operator is configured not to connect to the address.
	ReasonDialDenied Reason = "DialDenied"
	// ReasonSecretNotFound means that the Secret, or the key in it, does not exist.
	ReasonSecretNotFound Reason = "SecretNotFound"
	// ReasonSecretInvalid means that a value of a Secret cannot be used.
	ReasonSecretInvalid Reason = "SecretInvalid"
	// ReasonSecretForbidden means that the operator may not read the Secret.
	ReasonSecretForbidden Reason = "SecretForbidden"
	// ReasonWrongMode means that the server is not of the kind that spec.redis.mode says.
	ReasonWrongMode Reason = "WrongMode"
	// ReasonMasterNotFound means that the sentinels know no master with the name.
	ReasonMasterNotFound Reason = "MasterNotFound"
	// ReasonTooManyServers means that a namespace uses more servers than the operator allows.
	ReasonTooManyServers Reason = "TooManyServers"
)

var (
	// ErrBusy means that a call was not made, because an earlier call to the same server or of the same tenant has had
	// no answer for 100 ms, or because a connection or credentials could not be had in time. It does not mean that the
	// server is down.
	ErrBusy = errors.New("an earlier call is still unanswered")

	// ErrNotMaster means that a server which must be the master is not. It does not mean that there is none.
	ErrNotMaster = errors.New("the server is not a master")

	// ErrClosed means that a call was made after the pool was closed.
	ErrClosed = errors.New("the connection pool is closed")
)

// Error is a classified error.
type Error struct {
	// Reason is the class of the error.
	Reason Reason
	// Message describes the problem and what to do about it. It is constant for each cause: it contains neither values
	// that change with each occurrence nor data from the network, except for an announced address in bounds.
	Message string
	// Err is the cause. It may contain addresses, ports and bytes from the server, so write it to the log and not to a
	// status.
	Err error
}

// Error returns the reason and the cause, for logs.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Cause() }

// Cause returns the text of the cause, shortened for logs.
func (e *Error) Cause() string { return shorten(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Busy reports whether the cause is [ErrBusy]: the call was not made. It is false for nil.
func (e *Error) Busy() bool { return e != nil && errors.Is(e.Err, ErrBusy) }

// Classify returns the class of an error. If err wraps an [Error], it returns that one. It returns nil for nil.
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

// NotMaster is the error for a server that is not the master any more.
func NotMaster() *Error {
	return &Error{
		Reason:  ReasonUnreachable,
		Message: "The server is not the master any more. The operator asks for the new one; see that the failover ends.",
		Err:     ErrNotMaster,
	}
}

// class is a reason and its message.
type class struct {
	reason  Reason
	message string
}

// classOf goes from the most specific to the least specific evidence: a reply of the server, an error of the operator
// itself, TLS, the transport.
func classOf(err error) class {
	if final, ok := errors.AsType[*resp.FinalError](err); ok {
		return classifyReply(final.Reply)
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

// classifyCall classifies errors that occur in the operator itself, before the server is asked.
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

// IsReply reports whether err is an error reply of the server. The connection can still be used then.
func IsReply(err error) bool { return errorReply(err) != "" }

// IsRedirection reports whether err is the reply of a node of a Cluster that another node has the key.
func IsRedirection(err error) bool {
	reply := errorReply(err)
	return strings.HasPrefix(reply, "MOVED ") || strings.HasPrefix(reply, "ASK ")
}

// IsAsk reports whether err is the reply of a node of a Cluster that is moving the slot of the key to another node, and
// does not have the key.
func IsAsk(err error) bool { return strings.HasPrefix(errorReply(err), "ASK ") }

// IsRefusal reports whether err is the reply of a server that does not support a command, or does not allow it to this
// user, so the same command fails again. Managed services have error texts of their own, so every ERR counts, except
// for "too many clients".
func IsRefusal(err error) bool {
	reply := errorReply(err)
	return strings.HasPrefix(reply, "NOPERM") || strings.HasPrefix(reply, "NOPROTO") ||
		strings.HasPrefix(reply, "ERR ") && !TooManyClients(reply)
}

// IsUnsupported reports whether err is the reply of a server that does not know a command, or forbids it, so that there
// is no use in sending it again soon. Services have texts of their own.
func IsUnsupported(err error) bool {
	reply := strings.ToLower(errorReply(err))
	says := func(words string) bool { return strings.Contains(reply, words) }
	return strings.HasPrefix(reply, "noperm") || strings.HasPrefix(reply, "err ") &&
		slices.ContainsFunc([]string{"unknown", "unsupported", "not supported", "not allowed", "not permitted", "disabled"}, says)
}

// TooManyClients reports whether an error reply says that the server accepts no more clients.
func TooManyClients(reply string) bool { return strings.HasPrefix(reply, tooManyClients) }

const tooManyClients = "ERR max number of clients reached"

// resp.Error is classified like the error replies of the client library.
var _ redis.Error = resp.Error("")

// errorReply returns what the server said in an error reply, or "" if err is not one.
func errorReply(err error) string {
	if hidden, ok := errors.AsType[*hiddenError](err); ok {
		return hidden.said
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return reply.Error()
	}
	return ""
}

// MaxLogged is how many bytes of an error are logged.
const MaxLogged = 1 << 10

// shorten cuts a text to the length that is logged.
func shorten(text string) string {
	if len(text) <= MaxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:MaxLogged], "") + "…"
}

// transportMessage returns the message for an error below the Redis protocol. The cases go from the most to the least
// specific.
func transportMessage(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "The host name of the Redis server cannot be resolved. Check the address and DNS."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The connection to Redis was refused. Check the port, and that the server runs."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "There is no route to the Redis server. Check the address and the network policies."
	case errors.Is(err, resp.ErrTooLarge):
		return "The server sends replies that are too large. Check that the address is that of a Redis server, " +
			"and that no member of a sorted set is larger than 1 MiB."
	case IsTimeout(err):
		return "Redis did not answer in time. Check the address, the network policies and the load of the server."
	case isBroken(err):
		return "The connection to Redis broke. Check that the server runs and does not close the operator's connections. " +
			"If it requires TLS or a client certificate, configure spec.redis.tls."
	default:
		return "The server does not speak the Redis protocol. Check that the address is that of a Redis server. " +
			"If it requires TLS, configure spec.redis.tls."
	}
}

// IsTimeout reports whether err is a timeout.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}

// isBroken reports whether the connection was closed or failed.
func isBroken(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, ErrClosed) || errors.Is(err, redis.ErrClosed) || errors.As(err, &network)
}
