// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"miracle.dev/scaledjob-operator/internal/proof"
	"miracle.dev/scaledjob-operator/internal/wakeup"
)

// meaning is what an event says.
type meaning struct {
	// cause is what it means for how much the key holds.
	cause wakeup.Cause
	// class is that of the commands which it is published of, and zero if they work on keys of
	// any type. Such an event proves that the server publishes those of its class.
	class proof.Class
}

// meanings holds what is known of events. The names are those the server publishes for
// the commands; the comments name commands that are less obvious. One event may stand for any
// number of elements.
var meanings = map[string]meaning{
	"lpush":     {wakeup.Growth, proof.ClassList}, // LPUSH, LPUSHX, LMOVE and BLMOVE to it
	"rpush":     {wakeup.Growth, proof.ClassList},
	"linsert":   {wakeup.Growth, proof.ClassList},
	"sortstore": {wakeup.Growth, proof.ClassList}, // SORT … STORE
	"lpop":      {wakeup.Shrink, proof.ClassList},
	"rpop":      {wakeup.Shrink, proof.ClassList},
	"ltrim":     {wakeup.Shrink, proof.ClassList},
	"lrem":      {wakeup.Shrink, proof.ClassList},
	"lset":      {wakeup.None, proof.ClassList},

	// XREADGROUP, XACK, XCLAIM and XAUTOCLAIM have no event but that of a new consumer. What a
	// group lacks depends on its ID and the stream's. Without the group, all entries wait.
	"xadd":                  {wakeup.Growth, proof.ClassStream},
	"xsetid":                {wakeup.Growth, proof.ClassStream},
	"xgroup-create":         {wakeup.Growth, proof.ClassStream},
	"xgroup-setid":          {wakeup.Growth, proof.ClassStream},
	"xgroup-destroy":        {wakeup.Growth, proof.ClassStream},
	"xdel":                  {wakeup.Shrink, proof.ClassStream},
	"xtrim":                 {wakeup.Shrink, proof.ClassStream},
	"xgroup-delconsumer":    {wakeup.Shrink, proof.ClassStream}, // It drops what it had not acknowledged.
	"xgroup-createconsumer": {wakeup.None, proof.ClassStream},

	"zadd":             {wakeup.Growth, proof.ClassSortedSet}, // ZADD, GEOADD; a new score too
	"zincr":            {wakeup.Growth, proof.ClassSortedSet}, // ZINCRBY, ZADD … INCR
	"zunionstore":      {wakeup.Growth, proof.ClassSortedSet},
	"zinterstore":      {wakeup.Growth, proof.ClassSortedSet},
	"zdiffstore":       {wakeup.Growth, proof.ClassSortedSet},
	"zrangestore":      {wakeup.Growth, proof.ClassSortedSet},
	"georadiusstore":   {wakeup.Growth, proof.ClassSortedSet}, // GEORADIUS… STORE
	"geosearchstore":   {wakeup.Growth, proof.ClassSortedSet},
	"zrem":             {wakeup.Shrink, proof.ClassSortedSet},
	"zpopmin":          {wakeup.Shrink, proof.ClassSortedSet}, // ZPOPMIN, BZPOPMIN, ZMPOP, BZMPOP
	"zpopmax":          {wakeup.Shrink, proof.ClassSortedSet},
	"zremrangebyrank":  {wakeup.Shrink, proof.ClassSortedSet},
	"zremrangebyscore": {wakeup.Shrink, proof.ClassSortedSet},
	"zremrangebylex":   {wakeup.Shrink, proof.ClassSortedSet},

	"sadd":        {wakeup.Growth, proof.ClassSet}, // SADD, SMOVE to it
	"sunionstore": {wakeup.Growth, proof.ClassSet},
	"sinterstore": {wakeup.Growth, proof.ClassSet},
	"sdiffstore":  {wakeup.Growth, proof.ClassSet},
	"srem":        {wakeup.Shrink, proof.ClassSet}, // SREM, SMOVE from it
	"spop":        {wakeup.Shrink, proof.ClassSet},

	"hset":         {wakeup.Growth, proof.ClassHash}, // HSET, HMSET, HSETNX, HSETEX
	"hincrby":      {wakeup.Growth, proof.ClassHash},
	"hincrbyfloat": {wakeup.Growth, proof.ClassHash},
	"hdel":         {wakeup.Shrink, proof.ClassHash},
	"hexpired":     {wakeup.Shrink, proof.ClassHash},
	"hexpire":      {wakeup.None, proof.ClassHash},
	"hpersist":     {wakeup.None, proof.ClassHash},

	"rename_to":   {cause: wakeup.Growth},
	"restore":     {cause: wakeup.Growth}, // RESTORE, MIGRATE
	"copy_to":     {cause: wakeup.Growth},
	"move_to":     {cause: wakeup.Growth}, // MOVE from another database
	"del":         {cause: wakeup.Shrink},
	"rename_from": {cause: wakeup.Shrink},
	"move_from":   {cause: wakeup.Shrink},
	"expired":     {cause: wakeup.Shrink},
	"evicted":     {cause: wakeup.Shrink},
	// The key was overwritten with a value of another type, or so by a newer server.
	"set":          {cause: wakeup.Shrink},
	"overwritten":  {cause: wakeup.Shrink},
	"type_changed": {cause: wakeup.Shrink},
	// These leave the key as it is. "new" accompanies the event that says what is new.
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
