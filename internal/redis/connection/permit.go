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

// permit is for one connection, from when it is being made until it is closed. The lock of its permits guards what
// changes.
type permit struct {
	of       *permits
	purpose  purpose
	database int

	conn     net.Conn // nil until it is open
	idle     *time.Timer
	usedAt   time.Time
	released bool
	retired  bool // it is closed soon, and does not count any longer
	replica  bool // the server said that it is one
}

// release releases the permit.
func (p *permit) release() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.released {
		return
	}
	p.released = true
	delete(p.of.taken, p)
	if p.idle != nil {
		p.idle.Stop()
	}
	close(p.of.freed)
	p.of.freed = make(chan struct{})
}

// recognize records what the server says that it is.
func (p *permit) recognize(is identity) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.replica = is.role == replicaRole
}

// hold returns the open connection, which releases the permit when it is closed.
func (p *permit) hold(conn net.Conn) *permitted {
	held := &permitted{Conn: conn, permit: p}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.conn, p.usedAt = held, time.Now()
	if p.purpose == forReads {
		p.idle = time.AfterFunc(idleRead, p.expire)
	}
	return held
}

// expire closes the connection if it was not used for a while.
func (p *permit) expire() {
	p.of.mu.Lock()
	limit := idleRead
	if p.of.count(forReads) == 1 {
		limit = p.of.lastIdle
	}
	left := limit - time.Since(p.usedAt)
	if p.of.calls[p.database] > 0 {
		left = limit
	}
	if left > 0 && !p.released {
		p.idle.Reset(left)
	}
	p.of.mu.Unlock()
	if left <= 0 {
		_ = p.conn.Close()
	}
}

// use records that a call begins to use the connection, or returns an error if the connection must be given back
// instead.
func (p *permit) use() error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	reads := p.of.count(forReads)
	switch {
	case p.released, p.of.wanted(p.database), reads > 1 && p.of.full():
		return fmt.Errorf("%w: the connection is needed for another database, or is given back", failure.ErrBusy)
	}
	p.usedAt = time.Now()
	return nil
}

// permitted is an open connection that has a permit. It is a [syscall.Conn], so that the client library finds out
// whether it was closed, by the server or to give it back.
type permitted struct {
	net.Conn
	permit *permit
	// asking is true after a write, until something was read.
	asking bool
}

// Write writes to the connection. If a call begins with it, a connection for reads may be given back instead.
func (c *permitted) Write(b []byte) (int, error) {
	if c.permit.purpose != forReads {
		return c.Conn.Write(b)
	}
	if !c.asking {
		if err := c.permit.use(); err != nil {
			_ = c.Close()
			return 0, err
		}
	}
	c.asking = true
	return c.Conn.Write(b)
}

// Read reads from the connection.
func (c *permitted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.permit.purpose != forReads {
		return n, err
	}
	c.asking = false
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.permit.of.mu.Lock()
		defer c.permit.of.mu.Unlock()
		c.permit.of.stalled = time.Now()
	}
	return n, err
}

// Close closes the connection and releases the permit.
func (c *permitted) Close() error {
	c.permit.release()
	return c.Conn.Close()
}

// SyscallConn implements [syscall.Conn].
func (c *permitted) SyscallConn() (syscall.RawConn, error) {
	c.permit.of.mu.Lock()
	left := c.permit.released
	c.permit.of.mu.Unlock()
	socket, ok := c.Conn.(syscall.Conn)
	if left || !ok {
		return nil, net.ErrClosed
	}
	return socket.SyscallConn()
}
