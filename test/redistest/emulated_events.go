// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// event is a keyspace event.
type event struct {
	class byte // as in notify-keyspace-events
	name  string
	key   string
}

// rule says which events a command has.
type rule struct {
	// keys returns those of which note asks whether they existed before. Nil means none.
	keys func(args []string) []string
	// note notes the events. It is called only if the reply says that something changed.
	note func(c *change)
}

// rules are by the name of the command. A command without a rule has no events.
var rules = map[string]rule{
	"LPUSH":   {note: touches("lpush")},
	"LPUSHX":  {note: touches("lpush")},
	"RPUSH":   {note: touches("rpush")},
	"RPUSHX":  {note: touches("rpush")},
	"LINSERT": {note: touches("linsert")},
	"LSET":    {note: touches("lset")},

	"LPOP":  {note: takes("lpop")},
	"RPOP":  {note: takes("rpop")},
	"LREM":  {note: takes("lrem")},
	"LTRIM": {keys: first, note: trims},

	"BLPOP": {note: takesFromOneOf("lpop")},
	"BRPOP": {note: takesFromOneOf("rpop")},
	"LMPOP": {note: takesFromSide},

	"LMOVE":      {note: moves},
	"BLMOVE":     {note: moves},
	"RPOPLPUSH":  {note: rotates},
	"BRPOPLPUSH": {note: rotates},

	"DEL":       {keys: all, note: deletes},
	"UNLINK":    {keys: all, note: deletes},
	"GETDEL":    {note: alters("del")},
	"RESTORE":   {note: alters("restore")},
	"PERSIST":   {note: alters("persist")},
	"EXPIRE":    {note: expires},
	"PEXPIRE":   {note: expires},
	"EXPIREAT":  {note: expires},
	"PEXPIREAT": {note: expires},
	"RENAME":    {note: renames},
	"RENAMENX":  {note: renames},
	"COPY":      {note: copies},
}

// change is a command that changed something.
type change struct {
	args   []string // without the name of the command
	reply  string   // raw
	before map[string]bool
	exists func(key string) bool // now
	events []event
}

func (c *change) list(name, key string)    { c.events = append(c.events, event{'l', name, key}) }
func (c *change) generic(name, key string) { c.events = append(c.events, event{'g', name, key}) }

// taken notes that a command took from a list, and with that perhaps the list.
func (c *change) taken(name, key string) {
	c.list(name, key)
	if !c.exists(key) {
		c.generic("del", key)
	}
}

func first(args []string) []string { return args[:min(1, len(args))] }
func all(args []string) []string   { return args }

func touches(name string) func(*change) { return func(c *change) { c.list(name, c.args[0]) } }
func takes(name string) func(*change)   { return func(c *change) { c.taken(name, c.args[0]) } }
func alters(name string) func(*change)  { return func(c *change) { c.generic(name, c.args[0]) } }

// trims is for LTRIM, which does not tell whether there was a list.
func trims(c *change) {
	if c.before[c.args[0]] {
		c.taken("ltrim", c.args[0])
	}
}

// takesFromOneOf is for commands whose reply begins with the key they took from.
func takesFromOneOf(name string) func(*change) {
	return func(c *change) {
		reply, _ := server.ParseReply(bufio.NewReader(strings.NewReader(c.reply)))
		if values, _ := reply.([]any); len(values) > 0 {
			key, _ := values[0].(string)
			c.taken(name, key)
		}
	}
}

// takesFromSide is for LMPOP number keys… side.
func takesFromSide(c *change) {
	number, _ := strconv.Atoi(c.args[0])
	name, _ := sideEvents(c.args[1+number])
	takesFromOneOf(name)(c)
}

// moves is for LMOVE source destination side side, of which Redis publishes the push first.
func moves(c *change) {
	name, _ := sideEvents(c.args[2])
	_, pushed := sideEvents(c.args[3])
	c.list(pushed, c.args[1])
	c.taken(name, c.args[0])
}

// rotates is for RPOPLPUSH source destination.
func rotates(c *change) {
	c.list("lpush", c.args[1])
	c.taken("rpop", c.args[0])
}

// sideEvents returns the events for taking from and adding to one side of a list.
func sideEvents(side string) (taken, added string) {
	if strings.EqualFold(side, "LEFT") {
		return "lpop", "lpush"
	}
	return "rpop", "rpush"
}

func deletes(c *change) {
	for i, key := range c.args {
		if c.before[key] && !slices.Contains(c.args[:i], key) {
			c.generic("del", key)
		}
	}
}

// expires is for commands that delete the key if the time has passed already.
func expires(c *change) {
	if c.exists(c.args[0]) {
		c.generic("expire", c.args[0])
	} else {
		c.generic("del", c.args[0])
	}
}

func renames(c *change) {
	if c.args[0] != c.args[1] {
		c.generic("rename_from", c.args[0])
		c.generic("rename_to", c.args[1])
	}
}

func copies(c *change) { c.generic("copy_to", c.args[1]) }

// changed reports whether a reply is that of a command that changed something, as far as
// replies tell.
func changed(reply string) bool {
	switch reply {
	case "", ":0\r\n", ":-1\r\n", "*0\r\n":
		return false
	default:
		return !isNil(reply) && !isError(reply)
	}
}

// isNil reports whether a reply says that there is nothing, in either protocol.
func isNil(reply string) bool {
	return reply == "$-1\r\n" || reply == "*-1\r\n" || reply == "_\r\n"
}

func isError(reply string) bool { return strings.HasPrefix(reply, "-") }
