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
	// dialAttempts is how often a connection is dialed before the call fails, and callRetries how often a call is sent again: once,
	// for a pooled connection that the server closed in the meantime.
	dialAttempts = 1
	callRetries  = 1
	// anyPassword is for a user who needs none: Redis lets it in with any, but not without one.
	anyPassword = "none"
)

// dialFunc is the signature of [net.Dialer.DialContext].
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newClient returns a client of a database that does nothing behind our back: it honours
// deadlines, sends no command we did not ask for but HELLO, AUTH and SELECT, and gets its
// connections from dial.
func newClient(e auth.Endpoint, with *auth.Access, database int, dial dialFunc) *redis.Client {
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
		DialerRetries:            dialAttempts,
		MaxRetries:               callRetries,
		PoolSize:                 commandConnections,
		MaxIdleConns:             idleConnections,
		PipelinePoolSize:         -1,
		ReadBufferSize:           bufferBytes,
		WriteBufferSize:          bufferBytes,
		ConnMaxIdleTime:          idle,
		ConnMaxLifetime:          connectionLifetime,
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

// client returns the client of a database, which is nil if there is no access.
func (p *peer) client(database int) *redis.Client {
	found := p.clients[database]
	if found == nil && p.access != nil {
		found = newClient(p.endpoint, p.access, database, p.dialCommand(p.access))
		p.clients[database] = found
	}
	return found
}

// firstClient returns the client of a database, for which it loads the access if nobody has. The
// error is a cause for which the endpoint is down.
func (p *peer) firstClient(ctx context.Context, database int) (*redis.Client, error) {
	if _, err := p.firstAccess(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	if client := p.client(database); client != nil {
		return client, nil
	}
	return nil, failure.ErrBusy // The access was withdrawn a moment ago.
}

// closeClients closes the clients, if there are any.
func (p *peer) closeClients() {
	p.mu.Lock()
	clients := p.clients
	p.clients = map[int]*redis.Client{}
	p.mu.Unlock()
	closeAll(clients)
}

// closeDatabase closes the client of a database, if there is one.
func (p *peer) closeDatabase(database int) {
	p.mu.Lock()
	client := p.clients[database]
	delete(p.clients, database)
	p.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

func closeAll(clients map[int]*redis.Client) {
	for _, client := range clients {
		_ = client.Close()
	}
}
