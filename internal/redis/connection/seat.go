// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// seat is one connection. The lock of its seats guards what changes.
type seat struct {
	of       *seats
	purpose  purpose
	database int

	conn    net.Conn // nil until it is open
	idle    *time.Timer
	usedAt  time.Time
	left    bool
	retired bool // it is closed soon, and does not count any longer
	replica bool // the server said that it is one
}

// leave gives the seat back.
func (s *seat) leave() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.left {
		return
	}
	s.left = true
	delete(s.of.taken, s)
	if s.idle != nil {
		s.idle.Stop()
	}
	close(s.of.freed)
	s.of.freed = make(chan struct{})
}

// recognize records what the server says that it is.
func (s *seat) recognize(is identity) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.replica = is.role == replicaRole
}

// hold returns the open connection, which gives the seat back when it is closed.
func (s *seat) hold(conn net.Conn) *seated {
	held := &seated{Conn: conn, seat: s}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.conn, s.usedAt = held, time.Now()
	if s.purpose == forReads {
		s.idle = time.AfterFunc(idleRead, s.expire)
	}
	return held
}

// expire closes the connection if it was not used for a while.
func (s *seat) expire() {
	s.of.mu.Lock()
	limit := idleRead
	if s.of.count(forReads) == 1 {
		limit = s.of.lastIdle
	}
	left := limit - time.Since(s.usedAt)
	if s.of.calls[s.database] > 0 {
		left = limit
	}
	if left > 0 && !s.left {
		s.idle.Reset(left)
	}
	s.of.mu.Unlock()
	if left <= 0 {
		_ = s.conn.Close()
	}
}

// use records that a call begins to use the connection, or returns an error if the connection must be given back instead.
func (s *seat) use() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	reads := s.of.count(forReads)
	switch {
	case s.left, s.of.wanted(s.database), reads > 1 && s.of.full():
		return fmt.Errorf("%w: the connection is needed for another database, or is given back", failure.ErrBusy)
	}
	s.usedAt = time.Now()
	return nil
}

// seated is an open connection that has a seat. It is a [syscall.Conn], so that the client library finds out whether it
// was closed, by the server or to give it back.
type seated struct {
	net.Conn
	seat *seat
	// asking is true after a write, until something was read.
	asking bool
}

// Write writes to the connection. If a call begins with it, a connection for reads may be given back instead.
func (c *seated) Write(b []byte) (int, error) {
	if c.seat.purpose != forReads {
		return c.Conn.Write(b)
	}
	if !c.asking {
		if err := c.seat.use(); err != nil {
			_ = c.Close()
			return 0, err
		}
	}
	c.asking = true
	return c.Conn.Write(b)
}

// Read reads from the connection.
func (c *seated) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.seat.purpose != forReads {
		return n, err
	}
	c.asking = false
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.seat.of.mu.Lock()
		defer c.seat.of.mu.Unlock()
		c.seat.of.stalled = time.Now()
	}
	return n, err
}

// Close closes the connection and gives the seat back.
func (c *seated) Close() error {
	c.seat.leave()
	return c.Conn.Close()
}

// SyscallConn implements [syscall.Conn].
func (c *seated) SyscallConn() (syscall.RawConn, error) {
	c.seat.of.mu.Lock()
	left := c.seat.left
	c.seat.of.mu.Unlock()
	socket, ok := c.Conn.(syscall.Conn)
	if left || !ok {
		return nil, net.ErrClosed
	}
	return socket.SyscallConn()
}
