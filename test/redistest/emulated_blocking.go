// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// blocking are the commands that wait for an element. Their last argument is for how long,
// in seconds.
var blocking = map[string]bool{"BLPOP": true, "BRPOP": true, "BLMOVE": true, "BRPOPLPUSH": true}

// waiter is a client that waits for an element. Miniredis could have it wait too, but
// would let others go ahead between a push and the pop that it is for.
type waiter struct {
	peer *server.Peer
	argv []string
	// reply is what the client gets. It says that time is up until there is an element.
	reply  string
	served chan struct{}
}

// await returns the reply to a command that waits. The lock is held, but not meanwhile.
func (e *emulation) await(peer *server.Peer, argv []string) string {
	reply := e.execute(peer, argv)
	if !isNil(reply) {
		return reply
	}
	w := &waiter{peer: peer, argv: argv, reply: reply, served: make(chan struct{})}
	e.waiters = append(e.waiters, w)
	e.mu.Unlock()
	select {
	case <-w.served:
	case <-patience(argv):
	case <-e.stopping:
	}
	e.mu.Lock()
	e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
	if e.stopped() {
		return "" // The connection ends, as it does when a real server is killed.
	}
	return w.reply
}

// patience returns a channel that receives when the client of a valid command has waited
// for long enough: never, if it said 0.
func patience(argv []string) <-chan time.Time {
	seconds, _ := strconv.ParseFloat(argv[len(argv)-1], 64)
	if seconds == 0 {
		return nil
	}
	return time.After(time.Duration(seconds * float64(time.Second)))
}

// serveWaiters gives those who wait what there is for them. The lock is held.
func (e *emulation) serveWaiters() {
	for i := 0; i < len(e.waiters); {
		w := e.waiters[i]
		if !w.peer.Closed() {
			reply := e.execute(w.peer, w.argv)
			if isNil(reply) {
				i++
				continue
			}
			w.reply = reply
		}
		close(w.served)
		e.waiters = slices.Delete(e.waiters, i, i+1)
		i = 0 // An element that was moved may be for one that came earlier.
	}
}

// attempt is dispatch, but no command waits. Miniredis has that in a transaction.
func (e *emulation) attempt(peer *server.Peer, argv ...string) string {
	if !blocking[argv[0]] {
		return e.dispatch(peer, argv...)
	}
	once := &server.Peer{Resp3: peer.Resp3}
	e.dispatch(once, "MULTI")
	if reply := e.dispatch(once, argv...); reply != queued {
		return reply
	}
	return strings.TrimPrefix(e.dispatch(once, "EXEC"), "*1\r\n")
}
