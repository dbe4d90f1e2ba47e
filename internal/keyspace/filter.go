// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

// causes says what an event means for the length of a list. The names are those the
// server publishes for the commands; the comments name commands that are less obvious.
var causes = map[string]Cause{
	"lpush":     Growth, // LPUSH, LPUSHX, LMOVE and BLMOVE to it; one event for any number of elements.
	"rpush":     Growth,
	"linsert":   Growth,
	"sortstore": Growth, // SORT … STORE
	"rename_to": Growth,
	"restore":   Growth, // RESTORE, MIGRATE
	"copy_to":   Growth,
	"move_to":   Growth, // MOVE from another database

	"lpop":        Shrink,
	"rpop":        Shrink,
	"ltrim":       Shrink,
	"lrem":        Shrink,
	"del":         Shrink,
	"rename_from": Shrink,
	"move_from":   Shrink,
	"expired":     Shrink,
	"evicted":     Shrink,
	// The key was overwritten with a value of another type, or so by a newer server.
	"set":          Shrink,
	"overwritten":  Shrink,
	"type_changed": Shrink,

	// These leave the length as it is. "new" accompanies the event that says what is new.
	"lset":    None,
	"expire":  None,
	"persist": None,
	"new":     None,
	"keymiss": None, // Reading the length of a missing key would cause it.
}

// causeOf returns the cause for waking that an event is, or None. An event
// that is not known counts as growth: commands of later servers and modules come with
// new events, a wake too many costs one read, and a wake too few costs a resync.
func causeOf(event string) Cause {
	cause, known := causes[event]
	if !known {
		return Growth
	}
	return cause
}
