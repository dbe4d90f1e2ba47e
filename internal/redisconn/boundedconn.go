// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// boundedConn fails a read that would make a reply exceed the bounds. It also watches
// how the server greets.
type boundedConn struct {
	net.Conn
	replies replyBounds
	// bad is why a reply was refused. The client library looks ahead for push messages, does
	// not mind an error there, and reads again.
	bad error
	// greeted is called once: with nil when the server has sent something, or with what
	// ended the connection before.
	greeted   func(error)
	isGreeted atomic.Bool
	// count is called with 1 when the server has answered by something else than an error, and
	// with -1 when the connection is closed after that.
	count func(int)
	life  atomic.Int32
	// farewell is the error the server opened with, until another reply follows it.
	farewell atomic.Pointer[string]
}

// The life of a connection.
const (
	lifeUnknown int32 = iota
	lifeServing
	lifeClosed
)

// farewellError is returned when the server sent an error instead of a greeting and closed
// the connection, as it does when it has too many clients. It has nothing to unwrap: the
// client library would do that.
type farewellError struct {
	reply string
	err   error
}

func (e *farewellError) Error() string {
	return fmt.Sprintf("the server closed the connection after %q: %v", e.reply, e.err)
}

// bound wraps a connection. The client library can look whether the result was closed by
// the server, if it can do so with conn.
func bound(conn net.Conn, greeted func(error), count func(int)) net.Conn {
	bounded := &boundedConn{Conn: conn, greeted: greeted, count: count}
	if socket, ok := conn.(syscall.Conn); ok {
		return &boundedSocket{boundedConn: bounded, socket: socket}
	}
	return bounded
}

type boundedSocket struct {
	*boundedConn
	socket syscall.Conn
}

// SyscallConn implements [syscall.Conn].
func (s *boundedSocket) SyscallConn() (syscall.RawConn, error) { return s.socket.SyscallConn() }

// Read reads from the connection and checks what was read.
func (c *boundedConn) Read(b []byte) (int, error) {
	if c.bad != nil {
		return 0, c.bad
	}
	n, err := c.Conn.Read(b)
	if c.bad = c.replies.check(b[:n]); c.bad != nil {
		n, err = 0, c.bad
	}
	farewell := c.replies.onlyError()
	c.farewell.Store(farewell)
	if farewell == nil && c.replies.count > 0 && c.life.CompareAndSwap(lifeUnknown, lifeServing) {
		c.count(1)
	}
	return n, c.note(err)
}

// Write writes to the connection.
func (c *boundedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		err = c.note(err)
	}
	return n, err
}

// Close closes the connection.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.greet(nil)
	if c.life.Swap(lifeClosed) == lifeServing {
		c.count(-1)
	}
	return err
}

// note adds the server's last words to an error that ends the connection.
func (c *boundedConn) note(err error) error {
	if reply := c.farewell.Load(); err != nil && reply != nil && !isTimeout(err) {
		err = &farewellError{reply: *reply, err: err}
	}
	c.greet(err)
	return err
}

func (c *boundedConn) greet(err error) {
	if !c.isGreeted.Load() && !c.isGreeted.Swap(true) {
		c.greeted(err)
	}
}
