// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

const eventsSetting = "notify-keyspace-events"

// passedOn are the commands that miniredis serves as it would anyway. None changes a list.
var passedOn = map[string]bool{
	"CLIENT": true, "HELLO": true, "PING": true, "TYPE": true, "LINDEX": true, "LLEN": true, "LRANGE": true,
	"SUBSCRIBE": true, "UNSUBSCRIBE": true, "PSUBSCRIBE": true, "PUNSUBSCRIBE": true, "PUBLISH": true, "PUBSUB": true,
}

// changes are the commands that change a list, and the event of each. That of DEL is the one of a list that is gone.
var changes = map[string]string{"LPUSH": "lpush", "RPUSH": "rpush", "LPOP": "lpop", "RPOP": "rpop", "DEL": ""}

// emulation is one life of an [Emulated]. Its server takes the commands, which run one at a time, as those of Redis do,
// so that their events have an order. Most it hands on to a miniredis that does not listen.
type emulation struct {
	redis     *miniredis.Miniredis
	server    *server.Server
	listener  net.Listener
	accepting sync.WaitGroup

	// mu is held while a command runs and its events are published.
	mu     sync.Mutex
	events string // the flags of notify-keyspace-events
	// tracked has, for each connection with CLIENT TRACKING, the keys that it has read and that have not changed since.
	tracked map[*server.Peer]map[string]bool
}

func startEmulation(addr string) (*emulation, error) {
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
		events: DefaultEvents, tracked: map[*server.Peer]map[string]bool{},
	}
	e.server.SetPreHook(e.serve)
	e.accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.server.ServeConn(conn)
		}
	})
	return e, nil
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
	event, changes := changes[name]
	switch {
	case changes && len(args) > 0:
		e.change(peer, event, argv)
	case name == "CLIENT" && switchesTracking(args):
		e.track(peer)
	case name == "LLEN" && len(args) == 1 && peer.Resp3:
		// With RESP3, a connection with subscriptions may run it, which miniredis does not allow.
		peer.WriteRaw(e.run(peer, argv))
		if keys := e.tracked[peer]; keys != nil {
			keys[args[0]] = true
		}
	case name == "CONFIG":
		e.config(peer, args)
	case passedOn[name]:
		e.redis.Server().Dispatch(peer, argv)
	default:
		peer.WriteError("ERR unknown command: the emulated Redis does not know " + name)
	}
	return true
}

func switchesTracking(args []string) bool {
	return len(args) > 1 && strings.EqualFold(args[0], "TRACKING")
}

// run runs a command, and returns its reply.
func (e *emulation) run(peer *server.Peer, argv []string) string {
	var reply strings.Builder
	stand := server.NewPeer(bufio.NewWriter(&reply))
	stand.Resp3 = peer.Resp3
	e.redis.Server().Dispatch(stand, argv)
	stand.Flush()
	return reply.String()
}

// change runs a command that may change a list, and publishes the events that Redis has for it.
func (e *emulation) change(peer *server.Peer, event string, argv []string) {
	key := argv[1]
	before := e.length(key)
	peer.WriteRaw(e.run(peer, argv))
	after := e.length(key)
	if after == before {
		return
	}
	e.invalidate(key)
	if event != "" {
		e.publish("l", event, key)
	}
	if after == 0 {
		e.publish("g", "del", key)
	}
}

func (e *emulation) length(key string) int {
	list, err := e.redis.List(key)
	if err != nil {
		return 0
	}
	return len(list)
}

// publish announces a change of a key if the setting has it so. The class is l or g.
func (e *emulation) publish(class, event, key string) {
	if strings.Contains(e.events, "K") && strings.ContainsAny(e.events, "A"+class) {
		e.redis.Publish("__keyspace@0__:"+key, event)
	}
}

// config is the command CONFIG, with no more than GET and SET of that setting.
func (e *emulation) config(peer *server.Peer, args []string) {
	switch about := strings.ToLower(strings.Join(args[:min(2, len(args))], " ")); {
	case len(args) == 2 && about == "get "+eventsSetting:
		peer.WriteMapLen(1)
		peer.WriteBulk(eventsSetting)
		peer.WriteBulk(e.events)
	case len(args) == 3 && about == "set "+eventsSetting:
		e.events = args[2]
		peer.WriteOK()
	default:
		peer.WriteError("ERR the emulated Redis does not know this setting")
	}
}

// track is the command CLIENT TRACKING ON. With RESP2 nothing is sent, as by Redis.
func (e *emulation) track(peer *server.Peer) {
	if peer.Resp3 && e.tracked[peer] == nil {
		e.tracked[peer] = map[string]bool{}
		peer.OnDisconnect(func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.tracked, peer)
		})
	}
	peer.WriteOK()
}

// invalidate sends those who have read the key that it has changed, once.
func (e *emulation) invalidate(key string) {
	for peer, keys := range e.tracked {
		if !keys[key] {
			continue
		}
		delete(keys, key)
		peer.Block(func(w *server.Writer) {
			w.WritePushLen(2)
			w.WriteBulk("invalidate")
			w.WriteLen(1)
			w.WriteBulk(key)
			w.Flush()
		})
	}
}
