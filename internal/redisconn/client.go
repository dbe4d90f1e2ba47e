// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// commandConnections is how many calls to one endpoint can be on their way at once:
	// as many as there are workers by default, so that a distant server makes none of
	// them wait for another. Connections are made as they are needed.
	commandConnections = 32
	bufferBytes        = 4 << 10
	idleConnection     = 5 * time.Minute
	// connectionLifetime bounds for how long a moved DNS name is not noticed.
	connectionLifetime = 15 * time.Minute
)

// dialFunc is the signature of [net.Dialer.DialContext].
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns a client that does nothing behind our back: it honours deadlines,
// sends no command we did not ask for but HELLO, and gets its connections from dial.
func newClient(e Endpoint, dial dialFunc) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network:                  "tcp",
		Addr:                     e.Address,
		Dialer:                   dial,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ContextTimeoutEnabled:    true,
		DialTimeout:              callTimeout,
		ReadTimeout:              callTimeout,
		WriteTimeout:             callTimeout,
		DialerRetries:            1,
		// One retry, for a pooled connection that the server closed in the meantime.
		MaxRetries:       1,
		PoolSize:         commandConnections,
		PipelinePoolSize: -1,
		ReadBufferSize:   bufferBytes,
		WriteBufferSize:  bufferBytes,
		ConnMaxIdleTime:  idleConnection,
		ConnMaxLifetime:  connectionLifetime,
	})
}

// protect turns a panic of the client library into an error. It asserts types of what a
// server sent, and a server must not be able to stop the operator.
func protect(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed reply: %v", r)
		}
	}()
	return call()
}

// RedirectLogs sends what the client library logs, which by default goes to standard
// error, to log at verbosity 1. The library has one logger for the whole process.
func RedirectLogs(log logr.Logger) {
	redis.SetLogger(libraryLogger{log.V(1)})
}

type libraryLogger struct{ log logr.Logger }

// Printf implements the logging interface of the client library.
func (l libraryLogger) Printf(_ context.Context, format string, args ...any) {
	if l.log.Enabled() {
		l.log.Info(fmt.Sprintf(format, args...))
	}
}
