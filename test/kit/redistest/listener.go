// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"net"
	"sync"
)

// Listener serves connections. Close it.
type Listener struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// Serve serves connections on a free port of 127.0.0.1. A connection is closed when serve returns.
func Serve(serve func(net.Conn)) (*Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Listener{listener: listener, open: map[net.Conn]bool{}}
	l.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.serving.Go(func() {
				defer l.end(conn)
				if l.begin(conn) {
					serve(conn)
				}
			})
		}
	})
	return l, nil
}

// Addr returns host:port.
func (l *Listener) Addr() string { return l.listener.Addr().String() }

// Close closes all connections, and returns when none is served any more.
func (l *Listener) Close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	for conn := range l.open {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.serving.Wait()
}

// begin reports whether the connection may be served.
func (l *Listener) begin(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[conn] = true
	return !l.closed
}

func (l *Listener) end(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, conn)
	_ = conn.Close()
}
