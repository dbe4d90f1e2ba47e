// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"net"
	"sync"
)

// maxPending is how many bytes may wait for a client.
const maxPending = 8 << 20

var errSlowClient = errors.New("the client does not read what it is sent")

// bufferedConn is a connection on which a write does not wait for the client to read. It
// ends when too much waits.
type bufferedConn struct {
	net.Conn

	mu      sync.Mutex
	pending []byte
	closed  bool
	changed *sync.Cond // pending or closed
}

func newBufferedConn(conn net.Conn) *bufferedConn {
	c := &bufferedConn{Conn: conn}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Write takes all of b or nothing.
func (c *bufferedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	if len(c.pending)+len(b) > maxPending {
		return 0, errors.Join(errSlowClient, c.close())
	}
	c.pending = append(c.pending, b...)
	c.changed.Signal()
	return len(b), nil
}

// Close ends the connection. What is pending is lost.
func (c *bufferedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.close()
}

func (c *bufferedConn) close() error {
	c.closed = true
	c.changed.Signal()
	return c.Conn.Close()
}

// drain sends what is pending until the connection ends.
func (c *bufferedConn) drain() {
	for {
		batch, ok := c.take()
		if !ok {
			return
		}
		if _, err := c.Conn.Write(batch); err != nil {
			_ = c.Close()
		}
	}
}

// take waits for something to send. It reports whether there is still anyone to send it to.
func (c *bufferedConn) take() ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) == 0 && !c.closed {
		c.changed.Wait()
	}
	batch := c.pending
	c.pending = nil
	return batch, !c.closed
}
