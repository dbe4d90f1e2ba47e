// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"cmp"
	"context"
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

// anyPassword is sent for a user with nopass. Redis accepts any password for it, but AUTH needs one.
const anyPassword = "none"

// greet makes the handshake on a new connection: it authenticates, selects the database, and checks that the server is
// what the endpoint says. The further commands are sent with these. The error may be an error reply.
//
// The permit, unless it is nil, gets what the server says that it is.
func (s *server) greet(
	ctx context.Context, conn net.Conn, with *auth.Credentials, taken *permit, database int, further ...[]string,
) error {
	_, replies, err := s.introduce(ctx, conn, with, taken, database, further)
	if err != nil {
		return err
	}
	return firstRefusal(replies)
}

// introduce authenticates, and checks that the server is what the endpoint says. It returns the reply to HELLO, or nil
// without one, and the replies to SELECT, unless the database is 0, and to the further commands. All are sent in one
// round trip, so that a server far away can be reached in time. A server that rejects HELLO, unless because of the
// password, gets AUTH in a second one: services that do not know HELLO have errors of their own.
func (s *server) introduce(
	ctx context.Context, conn net.Conn, with *auth.Credentials, taken *permit, database int, further [][]string,
) (greeting any, replies []any, err error) {
	if database != 0 {
		further = slices.Concat([][]string{{"select", strconv.Itoa(database)}}, further)
	}
	replies, err = exchange(ctx, conn, append([][]string{hello(s.endpoint, with)}, further...))
	if err != nil {
		return nil, nil, err
	}
	refusal, refused := replies[0].(resp.Error)
	if !refused {
		is := identityOf(replies[0])
		if taken != nil {
			taken.recognize(is)
		}
		if fault := faultOf(s.endpoint.Role, is); fault != nil {
			return nil, nil, fault
		}
		return replies[0], replies[1:], nil
	}
	login := legacyLogin(s.endpoint, with)
	switch {
	case failure.TooManyClients(string(refusal)):
		_, err := exchange(ctx, conn, [][]string{{"ping"}})
		return nil, nil, cmp.Or[error](err, refusal) // The server closes the connection, and the error says why.
	case s.endpoint.Role == auth.RoleMaster, strings.HasPrefix(string(refusal), "WRONGPASS"):
		return nil, nil, refusal
	case login == nil:
		return nil, replies[1:], nil
	}
	if replies, err = exchange(ctx, conn, append([][]string{login}, further...)); err != nil {
		return nil, nil, err
	}
	return nil, replies[1:], firstRefusal(replies[:1])
}

// firstRefusal returns the first error reply, or nil.
func firstRefusal(replies []any) error {
	for _, reply := range replies {
		if refusal, refused := reply.(resp.Error); refused {
			return refusal
		}
	}
	return nil
}

// exchange sends commands in one round trip and returns their replies, including error replies. Besides, the server
// must not send anything: a message that was taken for a reply would make each reply that of the command before. An end
// of ctx ends it; close the connection then.
func exchange(ctx context.Context, conn net.Conn, commands [][]string) ([]any, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var sent []byte
	for _, command := range commands {
		sent = resp.AppendCommand(sent, command...)
	}
	if _, err := conn.Write(sent); failure.IsTimeout(err) {
		return nil, err
	} else if err != nil { // The server may have closed the connection after an alert, which can still be read.
		_, reason := conn.Read(make([]byte, 1))
		return nil, cmp.Or(reason, err)
	}
	from, replies := resp.NewReader(conn), make([]any, len(commands))
	for i := range replies {
		var err error
		if replies[i], err = from.Next(); err != nil {
			return nil, err
		}
		if _, pushed := replies[i].(resp.Push); pushed {
			return nil, fmt.Errorf("%w: a message instead of a reply", resp.ErrMalformed)
		}
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return replies, conn.SetDeadline(time.Time{})
}

// hello returns the command that switches to RESP3 and authenticates.
func hello(e auth.Endpoint, with *auth.Credentials) []string {
	command := []string{helloCommand, "3"}
	user, password := login(e, with)
	switch {
	case password == "":
		return command
	case user == "":
		user = "default"
	}
	return append(command, "auth", user, password)
}

// legacyLogin returns the command that authenticates without HELLO; nil if there is nothing to authenticate with.
func legacyLogin(e auth.Endpoint, with *auth.Credentials) []string {
	user, password := login(e, with)
	switch {
	case password == "":
		return nil
	case user == "":
		return []string{"auth", password}
	}
	return []string{"auth", user, password}
}

// login returns what to authenticate with. The password is empty if there is nothing.
func login(e auth.Endpoint, with *auth.Credentials) (user, password string) {
	if password = with.Password(); password == "" && e.Username != "" {
		password = anyPassword
	}
	return e.Username, password
}

// greeted is a connection after its handshake, for the client library. The library begins with a HELLO of its own, in
// one write, and greeted answers that itself: the server has answered one already, and may be far away.
type greeted struct {
	*permitted
	begun  bool
	answer string // what is still to be read of the answer
}

// libraryGreeting is the answer to the HELLO of the library, which ignores what it says: a map without entries.
const libraryGreeting = "%0\r\n"

// forLibrary wraps a connection after its handshake. The library looks at its socket before it uses it again.
func forLibrary(conn *permitted) net.Conn { return &greeted{permitted: conn, answer: libraryGreeting} }

// Write writes to the connection, except for the first time.
func (g *greeted) Write(b []byte) (int, error) {
	if !g.begun {
		g.begun = true
		return len(b), nil
	}
	return g.permitted.Write(b)
}

// Read reads from the connection, after the answer to the first write.
func (g *greeted) Read(b []byte) (int, error) {
	if g.answer != "" {
		n := copy(b, g.answer)
		g.answer = g.answer[n:]
		return n, nil
	}
	return g.permitted.Read(b)
}
