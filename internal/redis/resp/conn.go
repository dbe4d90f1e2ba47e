// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// Observer is told of the life of a connection. Its functions may be called from any goroutine
// that uses the connection; either may be nil.
type Observer struct {
	// Greeted is called once: with nil when the server has sent something or the connection was
	// closed on this side, or with what ended the connection before.
	Greeted func(error)
	// Serving is called with 1 when the server has answered by something else than an error, and
	// with -1 when the connection is closed after that.
	Serving func(more int)
}

// guarded is a connection whose replies are followed.
type guarded struct {
	net.Conn
	observer Observer
	replies  bounds
	// bad is why a reply was refused. The client library looks ahead for push messages, does
	// not mind an error there, and reads again.
	bad     error
	greeted atomic.Bool
	life    atomic.Int32
	// farewell is the error the server opened with, until another reply follows it.
	farewell atomic.Pointer[string]
}

// The life of a connection.
const (
	lifeUnknown int32 = iota
	lifeServing
	lifeClosed
)

// FarewellError is returned when the server sent an error instead of a greeting and closed
// the connection, as it does when it has too many clients. It has nothing to unwrap: the
// client library would do that.
type FarewellError struct {
	// Reply is the error that the server sent.
	Reply string

	err error
}

// Error returns the reply and how the connection ended, for logs.
func (e *FarewellError) Error() string {
	return fmt.Sprintf("the server closed the connection after %q: %v", e.Reply, e.err)
}

// Guard wraps a new connection, and tells observer about it. The client library can look whether
// the result was closed by the server, if it can do so with conn.
func Guard(conn net.Conn, observer Observer) net.Conn {
	guarded := &guarded{Conn: conn, observer: observer}
	if socket, ok := conn.(syscall.Conn); ok {
		return &guardedSocket{guarded: guarded, socket: socket}
	}
	return guarded
}

type guardedSocket struct {
	*guarded
	socket syscall.Conn
}

// SyscallConn implements [syscall.Conn].
func (s *guardedSocket) SyscallConn() (syscall.RawConn, error) { return s.socket.SyscallConn() }

// Read reads from the connection and checks what was read.
func (c *guarded) Read(b []byte) (int, error) {
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
		c.serving(1)
	}
	return n, c.note(err)
}

// Write writes to the connection.
func (c *guarded) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		err = c.note(err)
	}
	return n, err
}

// Close closes the connection.
func (c *guarded) Close() error {
	err := c.Conn.Close()
	c.greet(nil)
	if c.life.Swap(lifeClosed) == lifeServing {
		c.serving(-1)
	}
	return err
}

// note adds the server's last words to an error that ends the connection.
func (c *guarded) note(err error) error {
	if reply := c.farewell.Load(); err != nil && reply != nil && !isTimeout(err) {
		err = &FarewellError{Reply: *reply, err: err}
	}
	c.greet(err)
	return err
}

func (c *guarded) serving(more int) {
	if c.observer.Serving != nil {
		c.observer.Serving(more)
	}
}

func (c *guarded) greet(err error) {
	if !c.greeted.Swap(true) && c.observer.Greeted != nil {
		c.observer.Greeted(err)
	}
}

func isTimeout(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}
