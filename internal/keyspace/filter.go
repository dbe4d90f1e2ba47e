// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

// meaning is what an event says.
type meaning struct {
	// cause is what it means for the length of a list.
	cause Cause
	// class is the flag of notify-keyspace-events that has the server publish it, or 0 if
	// that is not known.
	class byte
}

// meanings holds what is known of events. The names are those the server publishes for
// the commands; the comments name commands that are less obvious.
var meanings = map[string]meaning{
	"lpush":     {Growth, classList}, // LPUSH, LPUSHX, LMOVE and BLMOVE to it; one event for any number of elements.
	"rpush":     {Growth, classList},
	"linsert":   {Growth, classList},
	"sortstore": {Growth, classList}, // SORT … STORE
	"rename_to": {Growth, classGeneric},
	"restore":   {Growth, classGeneric}, // RESTORE, MIGRATE
	"copy_to":   {Growth, classGeneric},
	"move_to":   {Growth, classGeneric}, // MOVE from another database

	"lpop":        {Shrink, classList},
	"rpop":        {Shrink, classList},
	"ltrim":       {Shrink, classList},
	"lrem":        {Shrink, classList},
	"del":         {Shrink, classGeneric},
	"rename_from": {Shrink, classGeneric},
	"move_from":   {Shrink, classGeneric},
	"expired":     {Shrink, 'x'},
	"evicted":     {Shrink, 'e'},
	// The key was overwritten with a value of another type, or so by a newer server.
	"set":          {Shrink, '$'},
	"overwritten":  {Shrink, 'o'},
	"type_changed": {Shrink, 'c'},

	// These leave the length as it is. "new" accompanies the event that says what is new.
	"lset":    {None, classList},
	"expire":  {None, classGeneric},
	"persist": {None, classGeneric},
	"new":     {None, 'n'},
	"keymiss": {None, 'm'}, // Reading the length of a missing key would cause it.
}

// The flags of notify-keyspace-events for the classes that are told apart.
const (
	classList    = 'l' // commands on lists
	classGeneric = 'g' // commands on keys of any type: DEL, RENAME, RESTORE, …
)

// meaningOf returns what an event says. One that is not known counts as growth: commands
// of later servers and modules come with new events, a wake too many costs one read, and
// a wake too few costs a resync.
func meaningOf(event string) meaning {
	known, ok := meanings[event]
	if !ok {
		return meaning{cause: Growth}
	}
	return known
}
