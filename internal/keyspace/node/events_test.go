// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// commandCase is a command, the commands to run before it, and the events that it publishes for the key q.
type commandCase struct {
	before, command, events string
}

// published has commands by the meaning of the first event that they publish.
var published = map[meaning][]commandCase{
	{coalesce.Growth, verify.ClassList}: {
		{"", "lpush q a b", "lpush"},
		{"rpush q a", "lpushx q b", "lpush"},
		{"", "rpush q a b", "rpush"},
		{"rpush q a", "rpushx q b", "rpush"},
		{"rpush q a", "linsert q before a b", "linsert"},
		{"rpush p a", "lmove p q right left", "lpush"},
		{"rpush p a", "blmove p q left right 1", "rpush"},
		{"rpush p a", "rpoplpush p q", "lpush"},
		{"rpush p a b", "sort p alpha store q", "sortstore"},
	},
	{coalesce.Shrink, verify.ClassList}: {
		{"rpush q a b", "lpop q", "lpop"},
		{"rpush q a b", "rpop q 2", "rpop del"},
		{"rpush q a b", "lmpop 1 q left count 2", "lpop del"},
		{"rpush q a b", "blpop q 1", "lpop"},
		{"rpush q a b", "lmove q p right left", "rpop"},
		{"rpush q a b", "ltrim q 1 1", "ltrim"},
		{"rpush q a b", "lrem q 0 a", "lrem"},
	},
	{coalesce.None, verify.ClassList}: {{"rpush q a", "lset q 0 b", "lset"}},

	{coalesce.Growth, verify.ClassStream}: {
		{"", "xadd q 1-1 f v", "xadd"},
		{"xadd q 1-1 f v", "xadd q maxlen 1 2-1 f v", "xadd xtrim"},
		{"xadd q 1-1 f v", "xsetid q 5-1", "xsetid"},
		{"", "xgroup create q g $ mkstream", "xgroup-create"},
		{"xgroup create q g $ mkstream", "xgroup setid q g 0", "xgroup-setid"},
		{"xgroup create q g $ mkstream", "xgroup destroy q g", "xgroup-destroy"},
	},
	{coalesce.Shrink, verify.ClassStream}: {
		{"xadd q 1-1 f v", "xdel q 1-1", "xdel"},
		{"xadd q 1-1 f v", "xtrim q maxlen 0", "xtrim"},
		{"xgroup create q g $ mkstream; xgroup createconsumer q g c", "xgroup delconsumer q g c", "xgroup-delconsumer"},
	},
	{coalesce.None, verify.ClassStream}: {
		{"xgroup create q g $ mkstream", "xgroup createconsumer q g c", "xgroup-createconsumer"},
		{"xadd q 1-1 f v; xgroup create q g 0", "xreadgroup group g c streams q >", "xgroup-createconsumer"},
		{"xadd q 1-1 f v; xgroup create q g 0; xreadgroup group g b streams q >", "xautoclaim q g c 0 0", "xgroup-createconsumer"},
	},

	{coalesce.Growth, verify.ClassSortedSet}: {
		{"", "zadd q 1 a", "zadd"},
		{"zadd q 1 a", "zadd q xx 2 a", "zadd"},
		{"", "geoadd q 15 37 a", "zadd"},
		{"", "zincrby q 1 a", "zincr"},
		{"", "zadd q incr 1 a", "zincr"},
		{"zadd p 1 a", "zunionstore q 1 p", "zunionstore"},
		{"zadd p 1 a", "zinterstore q 1 p", "zinterstore"},
		{"zadd p 1 a", "zdiffstore q 1 p", "zdiffstore"},
		{"zadd p 1 a", "zrangestore q p 0 -1", "zrangestore"},
		{"geoadd p 15 37 a", "georadius p 15 37 1 km store q", "georadiusstore"},
		{"geoadd p 15 37 a", "georadiusbymember p a 1 km storedist q", "georadiusstore"},
		{"geoadd p 15 37 a", "geosearchstore q p frommember a byradius 1 km", "geosearchstore"},
	},
	{coalesce.Shrink, verify.ClassSortedSet}: {
		{"zadd q 1 a 2 b", "zrem q a", "zrem"},
		{"zadd q 1 a 2 b", "zpopmin q", "zpopmin"},
		{"zadd q 1 a 2 b", "zpopmax q 2", "zpopmax del"},
		{"zadd q 1 a 2 b", "bzpopmin q 1", "zpopmin"},
		{"zadd q 1 a 2 b", "zmpop 1 q max", "zpopmax"},
		{"zadd q 1 a 2 b", "zremrangebyrank q 0 0", "zremrangebyrank"},
		{"zadd q 1 a 2 b", "zremrangebyscore q 0 1", "zremrangebyscore"},
		{"zadd q 1 a 1 b", "zremrangebylex q [a [a", "zremrangebylex"},
	},

	{coalesce.Growth, verify.ClassSet}: {
		{"", "sadd q a b", "sadd"},
		{"sadd p a", "smove p q a", "sadd"},
		{"sadd p a", "sunionstore q p", "sunionstore"},
		{"sadd p a", "sinterstore q p", "sinterstore"},
		{"sadd p a", "sdiffstore q p", "sdiffstore"},
	},
	{coalesce.Shrink, verify.ClassSet}: {
		{"sadd q a b", "srem q a", "srem"},
		{"sadd q a b", "smove q p a", "srem"},
		{"sadd q a b", "spop q", "spop"},
		{"sadd q a b", "spop q 2", "spop del"},
	},

	{coalesce.Growth, verify.ClassHash}: {
		{"", "hset q f v", "hset"},
		{"", "hmset q f v", "hset"},
		{"", "hsetnx q f v", "hset"},
		{"", "hincrby q f 1", "hincrby"},
		{"", "hincrbyfloat q f 1", "hincrbyfloat"},
	},
	{coalesce.Shrink, verify.ClassHash}: {{"hset q f v", "hdel q f", "hdel del"}},

	{cause: coalesce.Growth}: {
		{"rpush p a", "rename p q", "rename_to"},
		{"rpush p a", "copy p q", "copy_to"},
		{"rpush p a", "eval return(redis.call('restore','q',0,redis.call('dump','p'))) 0", "restore"},
		{"", "eval redis.call('select',1)redis.call('rpush','q','a')return(redis.call('move','q',0)) 0", "move_to"},
	},
	{cause: coalesce.Shrink}: {
		{"rpush q a", "del q", "del"},
		{"rpush q a", "unlink q", "del"},
		{"rpush q a", "pexpireat q 1", "del"},
		{"rpush q a", "rename q p", "rename_from"},
		{"rpush q a", "move q 1", "move_from"},
		{"rpush q a", "set q v", "set"},
	},
	{cause: coalesce.None}: {
		{"rpush q a", "expire q 1000", "expire"},
		{"rpush q a; expire q 1000", "persist q", "persist"},
	},
}

// unpublished has the events that no command of the test server publishes at once: events of time, of low memory, of
// flags that are off, and of newer servers.
var unpublished = map[meaning]string{
	{coalesce.Shrink, verify.ClassHash}: "hexpired",
	{coalesce.None, verify.ClassHash}:   "hexpire hpersist",
	{cause: coalesce.Shrink}:            "expired evicted overwritten type_changed",
	{cause: coalesce.None}:              "new keymiss",
}

func TestMeaningOfWhatTheServerPublishes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{Events: "KA"})
	sub := server.Client().Subscribe(t.Context(), channelOf("q"), "done")
	defer func() { g.Expect(sub.Close()).To(Succeed()) }()
	messages := sub.Channel()
	g.Eventually(func() ([]string, error) { return server.Client().PubSubChannels(t.Context(), "*").Result() }).
		WithTimeout(timeout).Should(HaveLen(2))

	known := map[string]bool{}
	for its, commands := range published {
		for _, c := range commands {
			do(t, server, "flushall")
			for before := range strings.SplitSeq(c.before, "; ") {
				run(t, server, before)
			}
			eventsUntilDone(t, server, messages)
			run(t, server, c.command)
			events := eventsUntilDone(t, server, messages)
			g.Expect(strings.Join(events, " ")).To(Equal(c.events), c.command)
			g.Expect(meaningOf(events[0])).To(Equal(its), c.command)
			known[events[0]] = true
		}
	}
	for its, events := range unpublished {
		for event := range strings.FieldsSeq(events) {
			g.Expect(meaningOf(event)).To(Equal(its), event)
			known[event] = true
		}
	}
	g.Expect(slices.Collect(maps.Keys(meanings))).To(ConsistOf(slices.Collect(maps.Keys(known))), "every known event was published")
}

// do runs a command on the server.
func do(t *testing.T, server *redistest.Server, args ...any) {
	t.Helper()
	NewWithT(t).Expect(server.Client().Do(t.Context(), args...).Err()).To(Succeed())
}

// run runs a command line, if it is not empty.
func run(t *testing.T, server *redistest.Server, command string) {
	t.Helper()
	var args []any
	for word := range strings.FieldsSeq(command) {
		args = append(args, word)
	}
	if len(args) > 0 {
		do(t, server, args...)
	}
}

// eventsUntilDone returns the events that were published since the last call.
func eventsUntilDone(t *testing.T, server *redistest.Server, messages <-chan *redis.Message) []string {
	t.Helper()
	do(t, server, "publish", "done", "")
	var events []string
	for {
		select {
		case message := <-messages:
			if message.Channel == "done" {
				return events
			}
			events = append(events, message.Payload)
		case <-t.Context().Done():
			return events
		}
	}
}

func TestUnknownEventsWakeAndProveNothing(t *testing.T) {
	t.Parallel()
	for _, unknown := range []string{"", "LPUSH", "lpush ", "jsonarrappend", "\x00", strings.Repeat("x", 1<<20)} {
		NewWithT(t).Expect(meaningOf(unknown)).To(Equal(meaning{cause: coalesce.Growth}))
	}
}
