// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// ErrNotTracking means that a server cannot track keys for this user, or does not let it.
var ErrNotTracking = errors.New("the server does not track keys for this connection")

// Tracking is one connection to one database on which the server tracks keys: when a key that was read on it changes,
// the server sends the push message "invalidate" once. The protocol is RESP3, because over RESP2 Redis accepts CLIENT
// TRACKING as well, but sends nothing.
//
// [Tracking.Send] and [Tracking.Receive] may be called concurrently. The end of a context interrupts neither; call
// Close for that.
type Tracking struct {
	dedicated
	conn    *seated
	replies *resp.Reader
	command []byte // the buffer of Send
}

// openTracking connects with the credentials in use, and loads them if necessary.
func (s *server) openTracking(ctx context.Context, database int, replaces bool, timeout time.Duration) (*Tracking, error) {
	openCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	with, err := s.firstCredentials(openCtx)
	if err != nil {
		return nil, s.passwords.Error(failure.Classify(err))
	}
	t := &Tracking{dedicated: dedicated{server: s, credentials: with}}
	taken, err := s.seats.take(openCtx, forTracking, database, replaces)
	if err == nil {
		t.conn, err = s.dialTracking(openCtx, with, taken, func(ctx context.Context, conn net.Conn) error {
			return t.greet(ctx, conn, taken, database)
		})
	}
	if err != nil {
		if errors.Is(err, ErrNotTracking) {
			return nil, err
		}
		return nil, s.passwords.Error(failure.Classify(err))
	}
	t.remote, t.disconnect = remoteOf(t.conn), func() { _ = t.conn.Close() }
	t.replies = resp.NewReader(t.conn)
	return t, nil
}

// greet switches to RESP3, authenticates, selects the database and switches tracking on.
func (t *Tracking) greet(ctx context.Context, conn net.Conn, taken *seat, database int) error {
	commands := [][]string{hello(t.server.endpoint, t.credentials)}
	if database != 0 {
		commands = append(commands, selectCommand(database))
	}
	commands = append(commands, []string{"client", "tracking", "on"})
	replies, err := exchange(ctx, conn, commands)
	if err != nil {
		return err
	}
	for i, reply := range replies {
		if refusal, refused := reply.(resp.Error); refused {
			return t.refusedTo(commands[i][0], refusal)
		}
	}
	if !speaksRESP3(replies[0]) {
		return fmt.Errorf("%w: it does not speak RESP3", ErrNotTracking)
	}
	return recognize(t.server.endpoint.Role, taken, identityOf(replies[0]))
}

// refusedTo returns the error for a command that was rejected. NOAUTH says nothing about the credentials, because HELLO
// has them: it is how some proxies answer every command before AUTH.
func (t *Tracking) refusedTo(command string, refusal resp.Error) error {
	const noAuth = "NOAUTH"
	if strings.HasPrefix(string(refusal), noAuth) {
		return fmt.Errorf("%w: %s: %w", ErrNotTracking, command, t.classified(refusal))
	}
	cause := t.failed(refusal)
	if cause.Reason == failure.ReasonAuthFailed || !failure.IsRefusal(refusal) {
		return cause
	}
	return fmt.Errorf("%w: %s: %w", ErrNotTracking, command, cause)
}

// speaksRESP3 reports whether the reply to HELLO says so.
func speaksRESP3(reply any) bool {
	fields, _ := reply.([]any)
	at := slices.Index(fields, any("proto"))
	return at >= 0 && at+1 < len(fields) && fields[at+1] == any(int64(3))
}

// Send sends commands at once.
func (t *Tracking) Send(commands ...[]string) error {
	t.command = t.command[:0]
	for _, command := range commands {
		t.command = resp.AppendCommand(t.command, command...)
	}
	if err := t.conn.SetWriteDeadline(time.Now().Add(t.server.timing.call)); err != nil {
		return t.classified(err)
	}
	_, err := t.conn.Write(t.command)
	return t.classified(err)
}

// Receive returns the next reply or push message, in a type of package resp; an error reply is a [resp.Error]. The
// error is a [*failure.Error]. After an error, including a timeout, close the connection.
func (t *Tracking) Receive(timeout time.Duration) (any, error) {
	if err := t.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, t.classified(err)
	}
	reply, err := t.replies.Next()
	if err != nil {
		return nil, t.failed(err)
	}
	return reply, nil
}

// Refused returns the class of an error reply. If the server no longer accepts the credentials, it is marked down.
func (t *Tracking) Refused(reply resp.Error) *failure.Error { return t.failed(reply) }
