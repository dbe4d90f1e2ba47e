// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import "miracle.dev/scaledjob-operator/internal/wakeup"

// meaning is what an event says.
type meaning struct {
	// cause is what it means for the length of a list.
	cause wakeup.Cause
	// list says that it is published of a command on a list. Such an event proves that the
	// server publishes them.
	list bool
}

// meanings holds what is known of events. The names are those the server publishes for
// the commands; the comments name commands that are less obvious.
var meanings = map[string]meaning{
	"lpush":     {cause: wakeup.Growth, list: true}, // LPUSH, LPUSHX, LMOVE and BLMOVE to it; one event for any number of elements.
	"rpush":     {cause: wakeup.Growth, list: true},
	"linsert":   {cause: wakeup.Growth, list: true},
	"sortstore": {cause: wakeup.Growth, list: true}, // SORT … STORE
	"rename_to": {cause: wakeup.Growth},
	"restore":   {cause: wakeup.Growth}, // RESTORE, MIGRATE
	"copy_to":   {cause: wakeup.Growth},
	"move_to":   {cause: wakeup.Growth}, // MOVE from another database

	"lpop":        {cause: wakeup.Shrink, list: true},
	"rpop":        {cause: wakeup.Shrink, list: true},
	"ltrim":       {cause: wakeup.Shrink, list: true},
	"lrem":        {cause: wakeup.Shrink, list: true},
	"del":         {cause: wakeup.Shrink},
	"rename_from": {cause: wakeup.Shrink},
	"move_from":   {cause: wakeup.Shrink},
	"expired":     {cause: wakeup.Shrink},
	"evicted":     {cause: wakeup.Shrink},
	// The key was overwritten with a value of another type, or so by a newer server.
	"set":          {cause: wakeup.Shrink},
	"overwritten":  {cause: wakeup.Shrink},
	"type_changed": {cause: wakeup.Shrink},

	// These leave the length as it is. "new" accompanies the event that says what is new.
	"lset":    {cause: wakeup.None, list: true},
	"expire":  {cause: wakeup.None},
	"persist": {cause: wakeup.None},
	"new":     {cause: wakeup.None},
	"keymiss": {cause: wakeup.None}, // Reading the length of a missing key would cause it.
}

// meaningOf returns what an event says. One that is not known counts as growth: commands
// of later servers and modules come with new events, a wake too many costs one read, and
// a wake too few costs a resync.
func meaningOf(event string) meaning {
	known, ok := meanings[event]
	if !ok {
		return meaning{cause: wakeup.Growth}
	}
	return known
}
