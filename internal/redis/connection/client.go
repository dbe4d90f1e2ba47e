// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// commandConnections is how many calls to one endpoint can be on their way at once:
	// as many as there are workers by default, so that a distant server makes none of
	// them wait for another. Connections are made as they are needed.
	commandConnections = 32
	// idleConnections is how many are kept of them for each database while nobody calls.
	idleConnections = 8
	bufferBytes     = 4 << 10
	idleConnection  = 5 * time.Minute
	// idleSecured is idleConnection for TLS. The library can't see there that the server has closed
	// a connection, as many do with idle ones, before it uses it.
	idleSecured = 30 * time.Second
	// connectionLifetime bounds for how long a moved DNS name is not noticed.
	connectionLifetime = 15 * time.Minute
	// anyPassword is for a user who needs none: Redis lets it in with any, but not without one.
	anyPassword = "none"
)

// dialFunc is the signature of [net.Dialer.DialContext].
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns a client of a database that does nothing behind our back: it honours
// deadlines, sends no command we did not ask for but HELLO, AUTH and SELECT, and gets its
// connections from dial.
func newClient(e auth.Endpoint, with *auth.Credentials, database int, dial dialFunc) *redis.Client {
	password, idle := with.Password(), idleConnection
	if with.Secured() {
		idle = idleSecured
	}
	if e.Username != "" && password == "" {
		password = anyPassword
	}
	return redis.NewClient(&redis.Options{
		Network:                  "tcp",
		Addr:                     e.Address,
		Username:                 e.Username,
		Password:                 password,
		DB:                       database,
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
		MaxIdleConns:     idleConnections,
		PipelinePoolSize: -1,
		ReadBufferSize:   bufferBytes,
		WriteBufferSize:  bufferBytes,
		ConnMaxIdleTime:  idle,
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
// error, to log at verbosity 1, without the passwords that are in use by these pools. The library
// has one logger for the whole process.
func RedirectLogs(log logr.Logger, pools ...*Pool) {
	redis.SetLogger(libraryLogger{log.V(1), pools})
}

type libraryLogger struct {
	log   logr.Logger
	pools []*Pool
}

// Printf implements the logging interface of the client library.
func (l libraryLogger) Printf(_ context.Context, format string, args ...any) {
	if !l.log.Enabled() {
		return
	}
	text := fmt.Sprintf(format, args...)
	for _, pool := range l.pools {
		text = pool.passwords.Text(text)
	}
	l.log.Info("The client library says", "text", failure.Shorten(text))
}

// firstClient returns the client of a database, for which it loads credentials if nobody has. The error is a cause for
// which the server is down.
func (s *server) firstClient(ctx context.Context, database int) (*redis.Client, error) {
	if _, err := s.firstCredentials(ctx); err != nil {
		return nil, err
	}
	inUse, err := s.health.usable()
	if err != nil {
		return nil, err
	}
	if client := inUse.get(database); client != nil {
		return client, nil
	}
	return nil, failure.ErrBusy // They were withdrawn or replaced a moment ago.
}

// closeClients closes the clients in use. Others are made as they are needed.
func (s *server) closeClients() { s.health.retire().close() }

// closeDatabase closes the client of a database, if there is one.
func (s *server) closeDatabase(database int) {
	inUse, _ := s.health.look()
	inUse.closeDatabase(database)
}
