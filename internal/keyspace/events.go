// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// meaning is what an event says.
type meaning struct {
	// cause is what it means for how much the key holds.
	cause coalesce.Cause
	// class is that of the commands which it is published of, and zero if they work on keys of
	// any type. Such an event proves that the server publishes those of its class.
	class verify.Class
}

// meanings holds what is known of events. The names are those the server publishes for
// the commands; the comments name commands that are less obvious. One event may stand for any
// number of elements.
var meanings = map[string]meaning{
	"lpush":     {coalesce.Growth, verify.ClassList}, // LPUSH, LPUSHX, LMOVE and BLMOVE to it
	"rpush":     {coalesce.Growth, verify.ClassList},
	"linsert":   {coalesce.Growth, verify.ClassList},
	"sortstore": {coalesce.Growth, verify.ClassList}, // SORT … STORE
	"lpop":      {coalesce.Shrink, verify.ClassList},
	"rpop":      {coalesce.Shrink, verify.ClassList},
	"ltrim":     {coalesce.Shrink, verify.ClassList},
	"lrem":      {coalesce.Shrink, verify.ClassList},
	"lset":      {coalesce.None, verify.ClassList},

	// XREADGROUP, XACK, XCLAIM and XAUTOCLAIM have no event but that of a new consumer. What a
	// group lacks depends on its ID and the stream's. Without the group, all entries wait.
	"xadd":                  {coalesce.Growth, verify.ClassStream},
	"xsetid":                {coalesce.Growth, verify.ClassStream},
	"xgroup-create":         {coalesce.Growth, verify.ClassStream},
	"xgroup-setid":          {coalesce.Growth, verify.ClassStream},
	"xgroup-destroy":        {coalesce.Growth, verify.ClassStream},
	"xdel":                  {coalesce.Shrink, verify.ClassStream},
	"xtrim":                 {coalesce.Shrink, verify.ClassStream},
	"xgroup-delconsumer":    {coalesce.Shrink, verify.ClassStream}, // It drops what it had not acknowledged.
	"xgroup-createconsumer": {coalesce.None, verify.ClassStream},

	"zadd":             {coalesce.Growth, verify.ClassSortedSet}, // ZADD, GEOADD; a new score too
	"zincr":            {coalesce.Growth, verify.ClassSortedSet}, // ZINCRBY, ZADD … INCR
	"zunionstore":      {coalesce.Growth, verify.ClassSortedSet},
	"zinterstore":      {coalesce.Growth, verify.ClassSortedSet},
	"zdiffstore":       {coalesce.Growth, verify.ClassSortedSet},
	"zrangestore":      {coalesce.Growth, verify.ClassSortedSet},
	"georadiusstore":   {coalesce.Growth, verify.ClassSortedSet}, // GEORADIUS… STORE
	"geosearchstore":   {coalesce.Growth, verify.ClassSortedSet},
	"zrem":             {coalesce.Shrink, verify.ClassSortedSet},
	"zpopmin":          {coalesce.Shrink, verify.ClassSortedSet}, // ZPOPMIN, BZPOPMIN, ZMPOP, BZMPOP
	"zpopmax":          {coalesce.Shrink, verify.ClassSortedSet},
	"zremrangebyrank":  {coalesce.Shrink, verify.ClassSortedSet},
	"zremrangebyscore": {coalesce.Shrink, verify.ClassSortedSet},
	"zremrangebylex":   {coalesce.Shrink, verify.ClassSortedSet},

	"sadd":        {coalesce.Growth, verify.ClassSet}, // SADD, SMOVE to it
	"sunionstore": {coalesce.Growth, verify.ClassSet},
	"sinterstore": {coalesce.Growth, verify.ClassSet},
	"sdiffstore":  {coalesce.Growth, verify.ClassSet},
	"srem":        {coalesce.Shrink, verify.ClassSet}, // SREM, SMOVE from it
	"spop":        {coalesce.Shrink, verify.ClassSet},

	"hset":         {coalesce.Growth, verify.ClassHash}, // HSET, HMSET, HSETNX, HSETEX
	"hincrby":      {coalesce.Growth, verify.ClassHash},
	"hincrbyfloat": {coalesce.Growth, verify.ClassHash},
	"hdel":         {coalesce.Shrink, verify.ClassHash},
	"hexpired":     {coalesce.Shrink, verify.ClassHash},
	"hexpire":      {coalesce.None, verify.ClassHash},
	"hpersist":     {coalesce.None, verify.ClassHash},

	"rename_to":   {cause: coalesce.Growth},
	"restore":     {cause: coalesce.Growth}, // RESTORE, MIGRATE
	"copy_to":     {cause: coalesce.Growth},
	"move_to":     {cause: coalesce.Growth}, // MOVE from another database
	"del":         {cause: coalesce.Shrink},
	"rename_from": {cause: coalesce.Shrink},
	"move_from":   {cause: coalesce.Shrink},
	"expired":     {cause: coalesce.Shrink},
	"evicted":     {cause: coalesce.Shrink},
	// The key was overwritten with a value of another type, or so by a newer server.
	"set":          {cause: coalesce.Shrink},
	"overwritten":  {cause: coalesce.Shrink},
	"type_changed": {cause: coalesce.Shrink},
	// These leave the key as it is. "new" accompanies the event that says what is new.
	"expire":  {cause: coalesce.None},
	"persist": {cause: coalesce.None},
	"new":     {cause: coalesce.None},
	"keymiss": {cause: coalesce.None}, // Reading the length of a missing key would cause it.
}

// meaningOf returns what an event says. One that is not known counts as growth: commands
// of later servers and modules come with new events, a wake too many costs one read, and
// a wake too few costs a resync.
func meaningOf(event string) meaning {
	known, ok := meanings[event]
	if !ok {
		return meaning{cause: coalesce.Growth}
	}
	return known
}
