// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tcpproxy

import (
	"net"
	"sync"
	"time"
)

// pieceBytes is how much is read at once.
const pieceBytes = 16 << 10

// link is the connection of one client. What may change is guarded by the lock of the proxy.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ended  chan struct{} // closed when isEnded is set

	server   *net.TCPConn // nil until the server has been reached
	stranded Direction
	last     *lastWords // nil if there is no end in sight
	isEnded  bool
}

// lastWords is what a client still hears.
type lastWords struct {
	left int
	// cut says to close the connection after that. Otherwise it is stranded.
	cut bool
}

// serve passes on in both directions until the link ends.
func (l *link) serve() {
	if !l.reach() {
		return
	}
	var directions sync.WaitGroup
	directions.Go(func() { l.carry(ToServer, l.server, l.client) })
	directions.Go(func() { l.carry(ToClient, l.client, l.server) })
	directions.Wait()
	l.lockedly(l.close)
}

// reach dials the server. A client whose server is down gets a RST.
func (l *link) reach() bool {
	var dialer net.Dialer
	server, err := dialer.DialContext(l.proxy.ctx, "tcp", l.proxy.upstream)
	if err != nil {
		l.lockedly(l.reset)
		return false
	}
	l.lockedly(func() {
		l.server = server.(*net.TCPConn)
		if l.isEnded {
			_ = l.server.Close()
		}
	})
	return true
}

// carry passes on in one direction until that or the link ends.
func (l *link) carry(d Direction, to, from *net.TCPConn) {
	piece := make([]byte, pieceBytes)
	for {
		if !l.await(d) {
			return
		}
		n, err := from.Read(piece)
		if !l.linger() || !l.await(d) {
			return
		}
		allowed, end := l.allow(d, n, err != nil)
		if _, writeErr := to.Write(piece[:allowed]); writeErr != nil {
			_, end = l.allow(d, 0, true)
		}
		if end {
			l.lockedly(l.close)
		}
		if end || err != nil {
			return
		}
	}
}

// await returns when bytes may pass. It reports false if the link has ended.
func (l *link) await(d Direction) bool {
	for {
		held, released := l.held(d)
		if !held {
			return true
		}
		select {
		case <-released:
		case <-l.ended:
			return false
		}
	}
}

func (l *link) held(d Direction) (held bool, released <-chan struct{}) {
	source, _, _ := net.SplitHostPort(l.client.RemoteAddr().String())
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held&d != 0 && source != p.spared, p.released
}

// linger waits for as long as the delay is now. It reports false if the link has ended.
func (l *link) linger() bool {
	l.proxy.mu.Lock()
	delay := l.proxy.delay
	l.proxy.mu.Unlock()
	if delay == 0 {
		return true
	}
	select {
	case <-time.After(delay):
		return true
	case <-l.ended:
		return false
	}
}

// allow says how many of n bytes pass, and whether the link ends with them,
// which, if nothing stands against it, is what its source has done.
func (l *link) allow(d Direction, n int, sourceEnded bool) (allowed int, end bool) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.stranded&d != 0 {
		return 0, false
	}
	if d == ToServer || l.last == nil {
		return n, sourceEnded
	}
	allowed = min(n, l.last.left)
	l.last.left -= allowed
	if l.last.left > 0 {
		return allowed, sourceEnded
	}
	if l.last.cut {
		return allowed, true
	}
	l.stranded |= ToClient
	return allowed, false
}

func (l *link) lockedly(do func()) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	do()
}

// close ends the link with a FIN to each side. The lock must be held.
func (l *link) close() {
	for _, conn := range l.end() {
		_ = conn.CloseWrite()
		_ = conn.Close()
	}
}

// reset ends the link with a RST to each side. The lock must be held.
func (l *link) reset() {
	for _, conn := range l.end() {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// end returns the connections to close, the first time it is called.
func (l *link) end() []*net.TCPConn {
	if l.isEnded {
		return nil
	}
	l.isEnded = true
	close(l.ended)
	if l.server == nil {
		return []*net.TCPConn{l.client}
	}
	return []*net.TCPConn{l.client, l.server}
}
