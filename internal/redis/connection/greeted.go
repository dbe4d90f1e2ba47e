// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import "net"

// greeted is a connection after its handshake, for the client library. The library begins with a HELLO of its own, in one
// write, and greeted answers that itself: the server has answered one already, and may be far away.
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
