// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// unserialized are the commands that miniredis serves by itself: those that change what
// their connection is, and those that may wait for other clients and have no events.
var unserialized = map[string]bool{
	"SUBSCRIBE": true, "UNSUBSCRIBE": true, "PSUBSCRIBE": true, "PUNSUBSCRIBE": true,
	"XREAD": true, "XREADGROUP": true, "BZPOPMIN": true, "BZPOPMAX": true, "BZMPOP": true,
}

// emulation is one life of an [Emulated]: a miniredis whose commands run one at a time,
// as those of Redis do, so that their events have an order.
type emulation struct {
	redis     *miniredis.Miniredis
	server    *server.Server // of redis
	listener  net.Listener
	accepting sync.WaitGroup
	draining  sync.WaitGroup
	// subscribers counts the connections that have subscribed.
	subscribers atomic.Int64
	// clients are by peer.
	clients sync.Map
	// dispatched is the peer of a command on its way to miniredis, which the hook lets pass.
	dispatched atomic.Pointer[server.Peer]
	// stopping is closed, with the lock held, when no command is to run any more.
	stopping chan struct{}

	// mu is held while a command runs, its transaction or script included.
	mu     sync.Mutex
	events eventFlags
	// noted are the events that have yet to be published.
	noted []event
	// waiters are in the order in which they came.
	waiters []*waiter
}

// client is the state of a connection besides that in miniredis.
type client struct {
	peer        *server.Peer
	transaction *transaction // since MULTI
	subscriber  bool         // now or before
}

func startEmulation(addr string, events eventFlags, forbidConfig bool) (*emulation, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("starting an emulated Redis: %w", err)
	}
	redis, err := startMiniredis()
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	e := &emulation{
		redis: redis, server: redis.Server(), listener: listener,
		stopping: make(chan struct{}), events: events,
	}
	e.server.SetPreHook(e.hook)
	if !forbidConfig {
		if err := e.server.Register("CONFIG", e.config); err != nil {
			return nil, errors.Join(fmt.Errorf("adding CONFIG: %w", err), e.stop())
		}
	}
	e.accepting.Go(e.accept)
	return e, nil
}

// startMiniredis starts a miniredis that does not listen, so that no command arrives
// before the hook is there. Dial is the only way to do so.
func startMiniredis() (*miniredis.Miniredis, error) {
	redis := miniredis.NewMiniRedis()
	conn, err := redis.Dial()
	if err != nil {
		return nil, fmt.Errorf("starting miniredis: %w", err)
	}
	return redis, conn.Close()
}

func (e *emulation) accept() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		buffered := newBufferedConn(conn)
		e.draining.Go(buffered.drain)
		e.server.ServeConn(buffered)
	}
}

// stop ends all connections and returns when nothing runs any more.
func (e *emulation) stop() error {
	err := e.listener.Close()
	e.accepting.Wait()
	e.mu.Lock()
	close(e.stopping)
	e.mu.Unlock()
	e.redis.Close()
	e.draining.Wait()
	return err
}

// stopped reports whether no command is to run any more. The lock is held.
func (e *emulation) stopped() bool {
	select {
	case <-e.stopping:
		return true
	default:
		return false
	}
}

// hook gets every command before miniredis does, and reports whether it is done.
func (e *emulation) hook(peer *server.Peer, name string, args ...string) bool {
	if e.dispatched.CompareAndSwap(peer, nil) {
		return false
	}
	argv := append([]string{name}, args...)
	if needsDatabases(argv) {
		peer.WriteError("ERR DB index is out of range")
		return true
	}
	c := e.client(peer)
	switch {
	case c == nil && (blocking[name] || unserialized[name]):
		peer.WriteRaw(refusal(name))
	case c == nil:
		// The client that runs the script holds the lock.
		peer.WriteRaw(e.execute(peer, argv))
	case unserialized[name] && c.transaction == nil:
		e.countSubscriber(c, name)
		return false
	default:
		e.serve(c, argv)
	}
	return true
}

// needsDatabases reports whether a command is about a database other than 0.
func needsDatabases(argv []string) bool {
	switch argv[0] {
	case "SELECT":
		return len(argv) == 2 && argv[1] != "0"
	case "COPY":
		return len(argv) > 4 && strings.EqualFold(argv[3], "DB") && argv[4] != "0"
	case "MOVE", "SWAPDB":
		return len(argv) == 3
	default:
		return false
	}
}

// client returns the state of a connection. It is nil for the peers that miniredis makes
// for the commands of a script: only those have a context before their first command.
func (e *emulation) client(peer *server.Peer) *client {
	if known, ok := e.clients.Load(peer); ok {
		return known.(*client)
	}
	if peer.Ctx != nil {
		return nil
	}
	c := &client{peer: peer}
	e.clients.Store(peer, c)
	peer.OnDisconnect(func() { e.clients.Delete(peer) })
	return c
}

func (e *emulation) countSubscriber(c *client, name string) {
	if !c.subscriber && (name == "SUBSCRIBE" || name == "PSUBSCRIBE") {
		c.subscriber = true
		e.subscribers.Add(1)
	}
}

// serve runs a command of a client and publishes its events.
func (e *emulation) serve(c *client, argv []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped() {
		c.peer.Close()
		return
	}
	switch name := argv[0]; {
	case c.transaction != nil:
		c.peer.WriteRaw(e.continueTransaction(c, argv))
	case name == "MULTI":
		c.peer.WriteRaw(e.beginTransaction(c, argv))
	case blocking[name]:
		c.peer.WriteRaw(e.await(c.peer, argv))
	case rules[name].note != nil:
		c.peer.WriteRaw(e.execute(c.peer, argv))
	default:
		e.dispatched.Store(c.peer)
		e.server.Dispatch(c.peer, argv)
	}
	e.publish()
}

// refusal returns the reply to a command that cannot be emulated where it is.
func refusal(name string) string {
	return fmt.Sprintf("-ERR %s is not emulated in transactions and scripts\r\n", name)
}

// dispatch lets miniredis run a command on behalf of a peer, and returns the raw reply.
// The lock is held.
func (e *emulation) dispatch(peer *server.Peer, argv ...string) string {
	var reply strings.Builder
	buffer := bufio.NewWriter(&reply)
	stand := server.NewPeer(buffer)
	stand.Ctx, stand.Resp3, stand.ClientName = peer.Ctx, peer.Resp3, peer.ClientName
	e.dispatched.Store(stand)
	e.server.Dispatch(stand, argv)
	peer.Ctx, peer.Resp3, peer.ClientName = stand.Ctx, stand.Resp3, stand.ClientName
	stand.Flush()
	return reply.String()
}

// execute runs a command, which does not wait, and notes its events. The lock is held.
func (e *emulation) execute(peer *server.Peer, argv []string) string {
	rule := rules[argv[0]]
	exists := func(key string) bool { return e.dispatch(peer, "EXISTS", key) == ":1\r\n" }
	c := change{args: argv[1:], exists: exists, before: map[string]bool{}}
	if rule.keys != nil {
		for _, key := range rule.keys(c.args) {
			c.before[key] = exists(key)
		}
	}
	c.reply = e.attempt(peer, argv...)
	if rule.note != nil && changed(c.reply) {
		rule.note(&c)
		e.noted = append(e.noted, c.events...)
	}
	return c.reply
}

// publish sends the events noted, with those of the clients that were waiting for them.
func (e *emulation) publish() {
	if len(e.noted) > 0 {
		e.serveWaiters()
	}
	for _, noted := range e.noted {
		if e.events.has('K') && e.events.has(noted.class) {
			e.redis.Publish("__keyspace@0__:"+noted.key, noted.name)
		}
	}
	e.noted = nil
}
