// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// passedOn are the commands that miniredis serves as it would anyway. None changes a list.
var passedOn = map[string]bool{
	"CLIENT": true, "ECHO": true, "HELLO": true, "PING": true,
	"EXISTS": true, "KEYS": true, "TYPE": true,
	"LINDEX": true, "LLEN": true, "LPOS": true, "LRANGE": true,
	"SUBSCRIBE": true, "UNSUBSCRIBE": true, "PSUBSCRIBE": true, "PUNSUBSCRIBE": true,
	"PUBLISH": true, "PUBSUB": true,
}

// emulation is one life of an [Emulated]. Its server takes the commands, which run one at
// a time, as those of Redis do, so that their events have an order. Most it hands on to a
// miniredis that does not listen.
type emulation struct {
	redis        *miniredis.Miniredis
	server       *server.Server
	listener     net.Listener
	accepting    sync.WaitGroup
	forbidConfig bool
	subscribers  *sync.Map // of the [Emulated]

	// mu is held while a command runs and its events are published.
	mu     sync.Mutex
	events string // the flags of notify-keyspace-events
	// tracked has, for each connection with CLIENT TRACKING, the keys that it has read and that have not changed since.
	tracked map[*server.Peer]map[string]struct{}
}

func startEmulation(addr string, options EmulatedOptions, subscribers *sync.Map) (*emulation, error) {
	redis := miniredis.NewMiniRedis()
	unused, err := redis.Dial() // No other way starts a miniredis that does not listen.
	if err != nil {
		return nil, fmt.Errorf("starting miniredis: %w", err)
	}
	_ = unused.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		redis.Close()
		return nil, fmt.Errorf("starting an emulated Redis: %w", err)
	}
	e := &emulation{
		redis: redis, server: server.NewServerConn(), listener: listener,
		forbidConfig: options.ForbidConfig, events: options.Events, subscribers: subscribers,
		tracked: map[*server.Peer]map[string]struct{}{},
	}
	e.server.SetPreHook(e.serve)
	e.accepting.Go(e.accept)
	return e, nil
}

func (e *emulation) accept() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.server.ServeConn(&bufferedConn{Conn: conn})
	}
}

// stop ends all connections and returns when no command runs any more.
func (e *emulation) stop() error {
	err := e.listener.Close()
	e.accepting.Wait()
	e.server.Close()
	e.redis.Close()
	return err
}

// serve runs a command, whose name is in upper case. It reports that nothing is left to do.
func (e *emulation) serve(peer *server.Peer, name string, args ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	argv := append([]string{name}, args...)
	switch change := changes[name]; {
	case change != nil:
		change(&command{emulation: e, peer: peer, argv: argv})
	case e.emulate(peer, name, args):
	case passedOn[name]:
		e.redis.Server().Dispatch(peer, argv)
	default:
		peer.WriteError("ERR unknown command: the emulated Redis does not know " + name)
	}
	return true
}

// emulate runs a command that changes no key and that miniredis serves differently from Redis. It reports whether it has.
func (e *emulation) emulate(peer *server.Peer, name string, args []string) bool {
	switch {
	case name == "CLIENT" && len(args) > 0 && strings.EqualFold(args[0], "TRACKING"):
		e.track(peer, args[1:])
	case name == "LLEN" && peer.Resp3:
		e.length(peer, append([]string{name}, args...))
	case name == "CONFIG" && !e.forbidConfig:
		e.config(peer, args)
	case name == "SUBSCRIBE" || name == "PSUBSCRIBE":
		e.subscribers.Store(peer, nil)
		return false
	default:
		return false
	}
	return true
}

// maxPending is how many bytes may wait for a client.
const maxPending = 8 << 20

// bufferedConn is a connection on which a write does not wait for the client to read. It
// ends when too much waits.
type bufferedConn struct {
	net.Conn

	mu      sync.Mutex
	pending []byte
	sending bool
}

// Write takes all of b or nothing.
func (c *bufferedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending)+len(b) > maxPending {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	c.pending = append(c.pending, b...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(b), nil
}

// send sends until nothing is pending or the connection ends.
func (c *bufferedConn) send() {
	for {
		c.mu.Lock()
		batch := c.pending
		c.pending = nil
		c.sending = len(batch) > 0
		c.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		if _, err := c.Conn.Write(batch); err != nil {
			_ = c.Close() // sending stays true: nothing is to be sent any more.
			return
		}
	}
}
