// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// Wire is one connection to one database for commands, their replies, and the messages that a server sends unasked:
// notifications and invalidations. The protocol is RESP3 if the server speaks it.
//
// [Wire.Send] and [Wire.Receive] may be called concurrently. The end of a context interrupts neither; call Close for
// that.
type Wire struct {
	dedicated
	conn    net.Conn
	replies *resp.Reader
	command []byte // the buffer of Send
	// resp3 means that the server speaks RESP3, and selected that the commands work on the database.
	resp3, selected bool
}

// Tracks reports whether keys can be tracked on this connection. Over RESP2 Redis accepts CLIENT TRACKING as well, but
// sends nothing; and keys are read in the database that is selected.
func (w *Wire) Tracks() bool { return w.resp3 && w.selected }

// OpenWire dials a connection, authenticates and selects the database. The caller must close it. If it fails, the
// endpoint is marked down.
func (c *Conn) OpenWire(ctx context.Context) (*Wire, error) {
	server, err := c.pool.acquire(c.endpoint)
	if err != nil {
		return nil, err
	}
	wire, err := server.openWire(ctx, c.database, c.pool.timing.openTimeout)
	if err != nil {
		c.pool.release(server)
		return nil, err
	}
	if err := c.keep(&wire.dedicated); err != nil {
		return nil, err
	}
	return wire, nil
}

// NextWire waits until the server is used with other credentials than those of a connection, and then returns a new
// connection with the current ones, as [Conn.OpenWire] does. It fails when ctx is done or the pool is closed.
func (c *Conn) NextWire(ctx context.Context, of *Wire) (*Wire, error) {
	return successor(ctx, c, &of.dedicated, c.OpenWire)
}

// openWire connects with the credentials in use, and loads them if necessary. If it fails, the server is marked down.
func (s *server) openWire(ctx context.Context, database int, timeout time.Duration) (*Wire, error) {
	began := time.Now()
	openCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	with, err := s.firstCredentials(openCtx)
	if err == nil {
		var opened *Wire
		if opened, err = s.greetedWire(openCtx, with, database, timeout); err == nil {
			return opened, nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.endpoint, context.Cause(ctx))
	}
	cause := failure.Classify(err)
	if !errors.Is(err, failure.ErrBusy) && !errors.Is(err, failure.ErrNotMaster) && !s.traffic.excused(cause, began) {
		s.markDown(with, cause)
	}
	return nil, s.passwords.Error(cause)
}

func (s *server) greetedWire(ctx context.Context, with *auth.Credentials, database int, timeout time.Duration) (*Wire, error) {
	conn, err := s.dialPubSub(with)(ctx, "tcp", s.endpoint.Address)
	if err != nil {
		return nil, err
	}
	w := &Wire{
		dedicated: dedicated{server: s, credentials: with, remote: remoteOf(conn), disconnect: func() { _ = conn.Close() }},
		conn:      conn, replies: resp.NewReader(conn),
	}
	defer context.AfterFunc(ctx, w.disconnect)()
	if err := w.greet(timeout, database); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// greet switches to RESP3, authenticates and selects the database. If the server does not know HELLO, it does without.
func (w *Wire) greet(timeout time.Duration, database int) error {
	sent := [][]string{hello(w.server.endpoint, w.credentials)}
	if database != 0 {
		sent = append(sent, selectCommand(database))
	}
	replies, err := w.call(timeout, sent...)
	if err != nil {
		return err
	}
	if refusal, refused := replies[0].(resp.Error); refused {
		if !w.withoutHello(refusal) {
			return w.failed(refusal)
		}
		return w.greetOld(timeout, database)
	}
	w.resp3 = speaksRESP3(replies[0])
	w.selected = database == 0 || !isError(replies[1])
	return w.server.recognize(identityOf(replies[0]))
}

// withoutHello reports whether a server that refused HELLO may be used without it. NOAUTH says nothing about the
// credentials, because HELLO has them: it is how some proxies answer every command before AUTH.
func (w *Wire) withoutHello(refusal resp.Error) bool {
	if w.server.endpoint.Role == auth.RoleMaster { // Only HELLO says whether it is one.
		return false
	}
	if strings.HasPrefix(string(refusal), "NOAUTH") {
		return w.credentials.Password() != ""
	}
	return failure.IsRefusal(refusal) && failure.Classify(refusal).Reason != failure.ReasonAuthFailed
}

// greetOld authenticates with AUTH. PING shows whether that was needed.
func (w *Wire) greetOld(timeout time.Duration, database int) error {
	var sent [][]string
	if command := authCommand(w.server.endpoint, w.credentials); command != nil {
		sent = append(sent, command)
	}
	sent = append(sent, []string{"ping"})
	if database != 0 {
		sent = append(sent, selectCommand(database))
	}
	replies, err := w.call(timeout, sent...)
	if err != nil {
		return err
	}
	for i, command := range sent {
		refusal, refused := replies[i].(resp.Error)
		if refused && (command[0] == "auth" || failure.Classify(refusal).Reason == failure.ReasonAuthFailed) {
			return w.failed(refusal)
		}
	}
	return w.server.recognize(identity{})
}

func selectCommand(database int) []string { return []string{"select", strconv.Itoa(database)} }

func isError(reply any) bool {
	_, is := reply.(resp.Error)
	return is
}

// hello returns the command that switches to RESP3 and authenticates.
func hello(e auth.Endpoint, with *auth.Credentials) []string {
	const version = "3"
	user, password := e.Username, with.Password()
	switch {
	case user == "" && password == "":
		return []string{"hello", version}
	case user == "":
		user = "default"
	case password == "":
		password = anyPassword
	}
	return []string{"hello", version, "auth", user, password}
}

// speaksRESP3 reports whether the reply to HELLO says so.
func speaksRESP3(reply any) bool {
	fields, _ := reply.([]any)
	at := slices.Index(fields, any("proto"))
	return at >= 0 && at+1 < len(fields) && fields[at+1] == any(int64(3))
}

// authCommand returns the command that authenticates, or nil if there are no credentials.
func authCommand(e auth.Endpoint, with *auth.Credentials) []string {
	hello := hello(e, with)
	if len(hello) < len([]string{"hello", "3", "auth", "user", "password"}) {
		return nil
	}
	if e.Username == "" {
		return []string{"auth", hello[4]}
	}
	return []string{"auth", hello[3], hello[4]}
}

// call sends commands and returns their replies. It is for a new connection, to which the server sends nothing else.
func (w *Wire) call(timeout time.Duration, commands ...[]string) ([]any, error) {
	if err := w.Send(commands...); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range commands {
		var err error
		if replies[i], err = w.Receive(timeout); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// Send sends commands at once. It fails if the server does not read them in time.
func (w *Wire) Send(commands ...[]string) error {
	w.command = w.command[:0]
	for _, command := range commands {
		w.command = resp.AppendCommand(w.command, command...)
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.server.timing.call)); err != nil {
		return w.classified(err)
	}
	_, err := w.conn.Write(w.command)
	return w.classified(err)
}

// Receive returns the next reply or message, in a type of package resp; an error reply is a [resp.Error]. The error is a
// [*failure.Error]. After an error, including a timeout, close the connection.
func (w *Wire) Receive(timeout time.Duration) (any, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, w.classified(err)
	}
	reply, err := w.replies.Next()
	if err != nil {
		return nil, w.failed(err)
	}
	return reply, nil
}

// Refused returns the class of an error reply. If the server no longer accepts the credentials, it is marked down.
func (w *Wire) Refused(reply resp.Error) *failure.Error { return w.failed(reply) }
