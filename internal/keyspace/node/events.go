// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// meaning is what an event means for a key.
type meaning struct {
	// cause is the effect of the event on the depth of the key.
	cause coalesce.Cause
	// class is the class of the commands that publish the event. It is 0 if they work on keys of any type. Such an
	// event proves that the server publishes events of the class.
	class verify.Class
}

// meanings has the known events by name. The comments name the commands that publish an event if that is not obvious.
// One event may stand for any number of elements.
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

	// XREADGROUP, XACK, XCLAIM and XAUTOCLAIM publish only the event of a new consumer. The number of entries that a
	// group has not read depends on its last delivered ID and on the stream. Without the group, all entries count.
	"xadd":                  {coalesce.Growth, verify.ClassStream},
	"xsetid":                {coalesce.Growth, verify.ClassStream},
	"xgroup-create":         {coalesce.Growth, verify.ClassStream},
	"xgroup-setid":          {coalesce.Growth, verify.ClassStream},
	"xgroup-destroy":        {coalesce.Growth, verify.ClassStream},
	"xdel":                  {coalesce.Shrink, verify.ClassStream},
	"xtrim":                 {coalesce.Shrink, verify.ClassStream},
	"xgroup-delconsumer":    {coalesce.Shrink, verify.ClassStream}, // The pending entries of the consumer are deleted.
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
	// These replace the key by one of another type. The last two are events of newer servers.
	"set":          {cause: coalesce.Shrink},
	"overwritten":  {cause: coalesce.Shrink},
	"type_changed": {cause: coalesce.Shrink},
	// These do not change the depth. "new" comes before the event of the command that created the key.
	"expire":  {cause: coalesce.None},
	"persist": {cause: coalesce.None},
	"new":     {cause: coalesce.None},
	"keymiss": {cause: coalesce.None}, // Published when the length of a missing key is read.
}

// meaningOf returns the meaning of an event. Unknown events count as growth, because newer servers and modules have
// further commands: a needless wake costs one read, but a missed one delays a Job until the next poll.
func meaningOf(event string) meaning {
	known, ok := meanings[event]
	if !ok {
		return meaning{cause: coalesce.Growth}
	}
	return known
}
