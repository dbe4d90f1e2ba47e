// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// guarded is a connection whose replies are checked.
type guarded struct {
	net.Conn
	replies decoder
	// bad is the error of the reply that was rejected. It is kept, because the client library ignores errors while it
	// looks for push messages, and reads again.
	bad error
	// final is the error reply that the server sent first, until another reply follows.
	final atomic.Pointer[string]
}

var errUnasked = errors.New("the server has sent something without a command")

// FinalError is returned when the server sent an error reply first and then closed the connection, as Redis does
// when it has too many clients. It has no Unwrap method: the client library would find the io.EOF and treat the
// connection as a good one that was closed.
type FinalError struct {
	// Reply is the error reply. Do not show it.
	Reply string

	shown string // shown instead of Reply
	err   error
}

// Error returns the reply and how the connection ended, for logs.
func (e *FinalError) Error() string {
	return fmt.Sprintf("the server closed the connection after %q: %v", cmp.Or(e.shown, e.Reply), e.err)
}

// Showing returns the same error with another text of the reply for logs.
func (e *FinalError) Showing(text string) *FinalError {
	return &FinalError{Reply: e.Reply, shown: text, err: e.err}
}

// Guard wraps a new connection. The result is a [syscall.Conn]: the client library uses that to check whether the
// server has closed the connection.
func Guard(conn net.Conn) net.Conn { return &guarded{Conn: conn} }

// GuardMessages is [Guard] for a connection that subscribes. Its replies and messages have at most 16 KiB each.
func GuardMessages(conn net.Conn) net.Conn {
	return &guarded{Conn: conn, replies: decoder{most: maxMessageBytes}}
}

// SyscallConn implements [syscall.Conn]. It fails if the server has sent something that was not read. The client
// library calls it before it uses a connection again, would read what it finds, and would wait for the rest of it
// without a deadline.
func (c *guarded) SyscallConn() (syscall.RawConn, error) {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return unchecked{}, nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	found := false
	err = raw.Control(func(fd uintptr) { found = unread(fd) })
	if found {
		err = errUnasked
	}
	return raw, err
}

// unchecked is a socket at which the client library cannot look, because of TLS.
type unchecked struct{ syscall.RawConn }

// Read looks at nothing.
func (unchecked) Read(func(uintptr) bool) error { return nil }

// Read reads from the connection and checks what it has read.
func (c *guarded) Read(b []byte) (int, error) {
	if c.bad != nil {
		return 0, c.bad
	}
	n, err := c.Conn.Read(b)
	if c.bad = c.replies.check(b[:n]); c.bad != nil {
		n, err = 0, c.bad
	}
	c.final.Store(c.replies.onlyError())
	return n, c.note(err)
}

// Write writes to the connection.
func (c *guarded) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.note(err)
}

// note adds the error reply that the server sent first, if there is one, to an error that ends the connection.
func (c *guarded) note(err error) error {
	if reply := c.final.Load(); err != nil && reply != nil && !isTimeout(err) {
		err = &FinalError{Reply: *reply, err: err}
	}
	return err
}

func isTimeout(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}
