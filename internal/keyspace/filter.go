// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

// meaning is what an event says.
type meaning struct {
	// cause is what it means for the length of a list.
	cause Cause
	// list says that it is published of a command on a list. Such an event proves that the
	// server publishes them.
	list bool
}

// meanings holds what is known of events. The names are those the server publishes for
// the commands; the comments name commands that are less obvious.
var meanings = map[string]meaning{
	"lpush":     {cause: Growth, list: true}, // LPUSH, LPUSHX, LMOVE and BLMOVE to it; one event for any number of elements.
	"rpush":     {cause: Growth, list: true},
	"linsert":   {cause: Growth, list: true},
	"sortstore": {cause: Growth, list: true}, // SORT … STORE
	"rename_to": {cause: Growth},
	"restore":   {cause: Growth}, // RESTORE, MIGRATE
	"copy_to":   {cause: Growth},
	"move_to":   {cause: Growth}, // MOVE from another database

	"lpop":        {cause: Shrink, list: true},
	"rpop":        {cause: Shrink, list: true},
	"ltrim":       {cause: Shrink, list: true},
	"lrem":        {cause: Shrink, list: true},
	"del":         {cause: Shrink},
	"rename_from": {cause: Shrink},
	"move_from":   {cause: Shrink},
	"expired":     {cause: Shrink},
	"evicted":     {cause: Shrink},
	// The key was overwritten with a value of another type, or so by a newer server.
	"set":          {cause: Shrink},
	"overwritten":  {cause: Shrink},
	"type_changed": {cause: Shrink},

	// These leave the length as it is. "new" accompanies the event that says what is new.
	"lset":    {cause: None, list: true},
	"expire":  {cause: None},
	"persist": {cause: None},
	"new":     {cause: None},
	"keymiss": {cause: None}, // Reading the length of a missing key would cause it.
}

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
