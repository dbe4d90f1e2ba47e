// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

const queued = "+QUEUED\r\n"

// transaction is what a client sent since MULTI. Miniredis would run it as a whole and
// leave no time to see what each command changes.
type transaction struct {
	// validator has a transaction in miniredis that never runs. It is there for the
	// replies to the commands that are queued.
	validator *server.Peer
	queued    [][]string
	failed    bool
}

// beginTransaction returns the reply to MULTI. The lock is held.
func (e *emulation) beginTransaction(c *client, argv []string) string {
	validator := &server.Peer{Resp3: c.peer.Resp3}
	reply := e.dispatch(validator, argv...)
	if !isError(reply) {
		c.transaction = &transaction{validator: validator}
	}
	return reply
}

// continueTransaction returns the reply to a command after MULTI. The lock is held.
func (e *emulation) continueTransaction(c *client, argv []string) string {
	t, name := c.transaction, argv[0]
	if name == "EXEC" && len(argv) == 1 {
		c.transaction = nil
		return e.exec(c.peer, t)
	}
	reply := refusal(name)
	if name != "CONFIG" && !unserialized[name] {
		reply = e.dispatch(t.validator, argv...)
	}
	switch {
	case reply == queued:
		t.queued = append(t.queued, argv)
	case name == "MULTI" || name == "WATCH": // A mistake that does no harm.
	case isError(reply):
		t.failed = true
	case name == "DISCARD":
		c.transaction = nil
		e.dispatch(c.peer, "UNWATCH")
	default: // It was run instead of queued.
		t.failed = true
		return refusal(name)
	}
	return reply
}

// exec runs a transaction and returns the reply to EXEC. The lock is held.
func (e *emulation) exec(peer *server.Peer, t *transaction) string {
	// An empty transaction of its own tells whether the keys that it watches are unchanged.
	e.dispatch(peer, "MULTI")
	verdict := e.dispatch(peer, "EXEC")
	switch {
	case t.failed:
		return "-EXECABORT Transaction discarded because of previous errors.\r\n"
	case isNil(verdict):
		return verdict
	}
	var reply strings.Builder
	fmt.Fprintf(&reply, "*%d\r\n", len(t.queued))
	for _, argv := range t.queued {
		reply.WriteString(e.execute(peer, argv))
	}
	return reply.String()
}
