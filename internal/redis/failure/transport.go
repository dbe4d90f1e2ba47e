// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

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
