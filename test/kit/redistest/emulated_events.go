// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

const eventsSetting = "notify-keyspace-events"

// validEvents reports whether Redis would take these flags.
func validEvents(flags string) bool { return strings.Trim(flags, "KEAg$lshzxetdmn") == "" }

// config is the command CONFIG, with no more than GET and SET of that setting, and GET *.
func (e *emulation) config(peer *server.Peer, args []string) {
	about := strings.ToLower(strings.Join(args[:min(2, len(args))], " "))
	switch {
	case len(args) == 2 && (about == "get "+eventsSetting || about == "get *"):
		peer.WriteMapLen(1)
		peer.WriteBulk(eventsSetting)
		peer.WriteBulk(e.events)
	case len(args) == 3 && about == "set "+eventsSetting && validEvents(args[2]):
		e.events = args[2]
		peer.WriteOK()
	default:
		peer.WriteError("ERR the emulated Redis does not know this setting or value")
	}
}

// publish tells of a change of a key those who track it, and announces it if the setting has it so. The class is l or g.
func (e *emulation) publish(class, event, key string) {
	e.invalidate(key)
	if strings.Contains(e.events, "K") && strings.ContainsAny(e.events, "A"+class) {
		e.redis.Publish("__keyspace@0__:"+key, event)
	}
}

// changes are the commands that may change a list. Each runs the command and publishes
// the events that Redis has for it.
var changes = map[string]func(*command){
	"LPUSH":     adds("lpush"),
	"LPUSHX":    adds("lpush"),
	"RPUSH":     adds("rpush"),
	"RPUSHX":    adds("rpush"),
	"LINSERT":   adds("linsert"),
	"LSET":      adds("lset"),
	"LPOP":      takes("lpop"),
	"RPOP":      takes("rpop"),
	"LREM":      takes("lrem"),
	"LTRIM":     trims,
	"LMOVE":     moves,
	"RPOPLPUSH": moves,
	"DEL":       deletes,
	"UNLINK":    deletes,
	"RENAME":    renames,
	"RENAMENX":  renames,
}

// command is one that may change a list.
type command struct {
	*emulation
	peer *server.Peer
	argv []string
}

// run runs the command and reports whether it changed something, as far as its reply tells.
func (c *command) run() bool {
	var reply strings.Builder
	stand := server.NewPeer(bufio.NewWriter(&reply))
	stand.Ctx, stand.Resp3 = c.peer.Ctx, c.peer.Resp3
	c.redis.Server().Dispatch(stand, c.argv)
	stand.Flush()
	c.peer.WriteRaw(reply.String())
	switch reply.String() {
	case ":0\r\n", ":-1\r\n", "*0\r\n", "$-1\r\n", "*-1\r\n", "_\r\n":
		return false
	default:
		return !strings.HasPrefix(reply.String(), "-")
	}
}

// taken announces that something was taken from a list, and with that perhaps the list.
func (c *command) taken(event, key string) {
	c.publish("l", event, key)
	if !c.redis.Exists(key) {
		c.publish("g", "del", key)
	}
}

func adds(event string) func(*command) {
	return func(c *command) {
		if c.run() {
			c.publish("l", event, c.argv[1])
		}
	}
}

func takes(event string) func(*command) {
	return func(c *command) {
		if c.run() {
			c.taken(event, c.argv[1])
		}
	}
}

// trims is for LTRIM, which does not tell whether there was a list.
func trims(c *command) {
	existed := len(c.argv) > 1 && c.redis.Exists(c.argv[1])
	if c.run() && existed {
		c.taken("ltrim", c.argv[1])
	}
}

// moves is for LMOVE source destination side side, and for RPOPLPUSH source destination.
// Redis announces the push first.
func moves(c *command) {
	if !c.run() {
		return
	}
	popped, pushed := "rpop", "lpush"
	if c.argv[0] == "LMOVE" {
		popped, pushed = letter(c.argv[3])+"pop", letter(c.argv[4])+"push"
	}
	c.publish("l", pushed, c.argv[2])
	c.taken(popped, c.argv[1])
}

// letter returns that of a side in the names of events.
func letter(side string) string { return strings.ToLower(side[:1]) }

func deletes(c *command) {
	existed := map[string]bool{}
	for _, key := range c.argv[1:] {
		existed[key] = c.redis.Exists(key)
	}
	c.run()
	for _, key := range c.argv[1:] {
		if existed[key] {
			c.publish("g", "del", key)
			existed[key] = false // It may be named twice.
		}
	}
}

func renames(c *command) {
	if c.run() && c.argv[1] != c.argv[2] {
		c.publish("g", "rename_from", c.argv[1])
		c.publish("g", "rename_to", c.argv[2])
	}
}
