// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// answering reads queues from a server that gives these answers to some commands. It returns the result.
func answering(t *testing.T, answers map[string]string, queues ...queue.Queue) ([]queue.Count, error) {
	t.Helper()
	server := redistest.NewScripted(t, redistest.Replies(answers).Script)
	source := queue.Source{Endpoint: auth.Endpoint{Address: server.Addr()}, Queues: queues, CountLimit: countLimit}
	counts, err := newReader(t).Observe(t.Context(), source)
	return numbers(counts), err
}

// withoutTransactions adds the replies of a server that has no transactions.
func withoutTransactions(answers map[string]string) redistest.Replies {
	const unknown = "-ERR unknown command\r\n"
	all := redistest.Replies{"multi": unknown, "exec": unknown}
	maps.Copy(all, answers)
	return all
}

// info returns a reply to XINFO GROUPS in RESP2, with one group.
func info(fields ...string) string {
	var reply strings.Builder
	fmt.Fprintf(&reply, "*1\r\n*%d\r\n", len(fields)+2)
	for _, field := range append([]string{"$4\r\nname", "$7\r\nworkers"}, fields...) {
		reply.WriteString(field + "\r\n")
	}
	return reply.String()
}

// firstEntry is a reply to XRANGE.
const firstEntry = "*1\r\n*1\r\n+0-5\r\n"

// gone are the answers of a server with an entry that is pending and may be gone.
func gone(pending, first string) map[string]string {
	return map[string]string{
		"xinfo": info("+pending", ":1", "+last-delivered-id", "+0-9", "+lag", ":0"), "xpending": pending, "xrange": first,
	}
}

func TestAnswersThatMakeNoSenseAreErrors(t *testing.T) {
	t.Parallel()
	const tooLarge = "$2000000000\r\n"
	due := queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.Due}
	lag := func(lag string) string { return info("+pending", ":0", "+last-delivered-id", "+0-1", "+lag", lag) }
	for name, c := range map[string]struct {
		is     queue.Queue
		answer map[string]string
		says   string
	}{
		"a negative length":       {waiting("key"), map[string]string{"llen": ":-1\r\n"}, "negative"},
		"no Redis":                {waiting("key"), map[string]string{"llen": "hello\r\n"}, "does not speak the Redis protocol"},
		"a huge length":           {waiting("key"), map[string]string{"llen": tooLarge}, "too large"},
		"a negative cardinality":  {ofType("key", queue.Set), map[string]string{"scard": ":-1\r\n"}, "negative"},
		"a fractional number":     {ofType("key", queue.Hash), map[string]string{"hlen": ",1.5\r\n"}, "malformed"},
		"a number as text":        {ofType("key", queue.Hash), map[string]string{"hlen": "$1\r\n1\r\n"}, "malformed"},
		"a number of many digits": {ofType("key", queue.Hash), map[string]string{"hlen": ":9223372036854775808\r\n"}, "malformed"},
		"a big number":            {ofType("key", queue.Hash), map[string]string{"hlen": "(1\r\n"}, "malformed"},
		"nothing":                 {ofType("key", queue.Hash), map[string]string{"hlen": "_\r\n"}, "malformed"},
		"a huge cardinality":      {ofType("key", queue.Set), map[string]string{"scard": tooLarge}, "too large"},
		"a score that is none":    {due, map[string]string{"zrange": "*2\r\n$1\r\nm\r\n$1\r\nx\r\n"}, "malformed"},
		"a score that is missing": {due, map[string]string{"zrange": "*1\r\n$1\r\nm\r\n"}, "malformed"},
		"too many members":        {due, map[string]string{"zrange": "*4\r\n+m\r\n+1\r\n+n\r\n+2\r\n"}, "malformed"},
		"groups that are none":    {jobs, map[string]string{"xinfo": "*1\r\n:1\r\n"}, "malformed"},
		"a field without a value": {jobs, map[string]string{"xinfo": info("+pending")}, "malformed"},
		"no pending entries":      {jobs, map[string]string{"xinfo": info("+lag", ":1")}, "malformed"},
		"negative pending":        {jobs, map[string]string{"xinfo": info("+lag", ":1", "+pending", ":-1")}, "negative"},
		"a lag that is no number": {jobs, map[string]string{"xinfo": lag(",nan")}, "malformed"},
		"an unknown position":     {jobs, map[string]string{"xinfo": info("+pending", ":0", "+lag", "_")}, "malformed"},
		"entries that are none":   {jobs, map[string]string{"xinfo": lag("_"), "xrange": "*1\r\n:1\r\n"}, "malformed"},
		"entries without an ID":   {jobs, map[string]string{"xinfo": lag("_"), "xrange": "*1\r\n*1\r\n:1\r\n"}, "malformed"},
		"too many entries":        {jobs, map[string]string{"xinfo": lag("_"), "xrange": "*101\r\n" + strings.Repeat("*1\r\n+0-1\r\n", 101)}, "malformed"},
		"an error in between":     {jobs, map[string]string{"xinfo": lag("_"), "xrange": "-WRONGTYPE\r\n"}, "WRONGTYPE"},
		"pending that is none":    {jobs, gone(":1\r\n", firstEntry), "malformed"},
		"pending without IDs":     {jobs, gone("*4\r\n:1\r\n*-1\r\n*-1\r\n*-1\r\n", firstEntry), "malformed"},
		"pending below nothing":   {jobs, gone("*4\r\n:-1\r\n+0-1\r\n+0-1\r\n*0\r\n", firstEntry), "negative"},
		"pending of a bad ID":     {jobs, gone("*4\r\n:1\r\n+0-1\r\n+x\r\n*0\r\n", firstEntry), "malformed"},
		"pending, then an error":  {jobs, gone("-WRONGTYPE\r\n", firstEntry), "WRONGTYPE"},
		"pending, not loaded":     {jobs, gone("-LOADING not yet\r\n", firstEntry), "LOADING"},
		"a first of a bad ID":     {jobs, gone("*4\r\n:1\r\n+0-1\r\n+0-1\r\n*0\r\n", "*1\r\n*1\r\n+1\r\n"), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			answers := withoutTransactions(map[string]string{"xlen": ":200\r\n", "zcount": ":0\r\n"})
			maps.Copy(answers, c.answer)
			counts, err := answering(t, answers, c.is)
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(failure.Classify(err).Message).NotTo(BeEmpty())
			g.Expect(counts).To(BeNil())
		})
	}
}

// No answer is no empty stream.
func TestAnAnswerThatDoesNotComeIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.NewScripted(t, withoutTransactions(map[string]string{
		"xlen": ":200\r\n", "xinfo": info("+pending", ":0", "+last-delivered-id", "+0-1", "+lag", "_"), "xrange": redistest.Nothing,
	}).Script)
	pool := startPoolOf(t, connection.Options{CallTimeout: 200 * time.Millisecond})
	source := queue.Source{Endpoint: auth.Endpoint{Address: server.Addr()}, Queues: []queue.Queue{jobs}, CountLimit: countLimit}
	counts, err := queue.NewReader(pool, topology.New(pool, logr.Discard())).Observe(t.Context(), source)
	NewWithT(t).Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonUnreachable))
	NewWithT(t).Expect(counts).To(BeNil())
}

// The fields of a group are a list in RESP2 and a map in RESP3.
func TestGroupsAreUnderstoodInBothProtocols(t *testing.T) {
	t.Parallel()
	map3 := "*2\r\n%1\r\n+name\r\n+others\r\n%5\r\n+future\r\n#t\r\n+name\r\n=11\r\ntxt:workers\r\n+pending\r\n:2\r\n+last-delivered-id\r\n+0-1\r\n+lag\r\n"
	read := func(entries string) string {
		return info("+pending", ":2", "+last-delivered-id", "+0-1", "+entries-read", ":"+entries, "+lag", ":7")
	}
	for name, c := range map[string]struct {
		reply, entries string
		counted        queue.Count
	}{
		"RESP2":                  {info("$3\r\nlag", ":7", "$7\r\npending", ":2", "+last-delivered-id", "+0-1"), "", queue.Count{Waiting: 7, InProgress: 2}},
		"RESP2 and no lag":       {info("+pending", ":2", "+last-delivered-id", "+0-1"), "*1\r\n*1\r\n+0-2\r\n", queue.Count{Waiting: 1, InProgress: 2}},
		"RESP2 and a null":       {info("+pending", ":2", "+last-delivered-id", "+0-1", "+lag", "$-1"), "*0\r\n", queue.Count{InProgress: 2}},
		"RESP3":                  {map3 + ":7\r\n", "", queue.Count{Waiting: 7, InProgress: 2}},
		"RESP3 and a null":       {map3 + "_\r\n", "*1\r\n*1\r\n+0-2\r\n", queue.Count{Waiting: 1, InProgress: 2}},
		"attributes":             {"|1\r\n+ttl\r\n:1\r\n" + map3 + ":7\r\n", "", queue.Count{Waiting: 7, InProgress: 2}},
		"more than the stream":   {map3 + ":9223372036854775807\r\n", "*1\r\n*1\r\n+0-2\r\n", queue.Count{Waiting: 1, InProgress: 2}},
		"less than nothing":      {map3 + ":-1\r\n", "*1\r\n*1\r\n+0-2\r\n", queue.Count{Waiting: 1, InProgress: 2}},
		"read and not":           {read("193"), "", queue.Count{Waiting: 7, InProgress: 2}},
		"read, and some trimmed": {read("293"), "*1\r\n*1\r\n+0-2\r\n", queue.Count{Waiting: 1, InProgress: 2}},
		"read less than nothing": {read("-993"), "", queue.Count{Waiting: 7, InProgress: 2}},
		"read the largest":       {read("9223372036854775807"), "*0\r\n", queue.Count{InProgress: 2}},
		"others":                 {"*1\r\n*2\r\n+name\r\n+others\r\n", "", queue.Count{Waiting: 1, GroupMissing: true}},
		"a name of another kind": {"*1\r\n*2\r\n+name\r\n*0\r\n", "", queue.Count{Waiting: 1, GroupMissing: true}},
		"a key that went":        {"-ERR no such key\r\n", "", queue.Count{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			answers := withoutTransactions(map[string]string{
				"xlen": ":200\r\n", "xinfo": c.reply, "xrange": cmp.Or(c.entries, "*0\r\n"), "xpending": "-ERR unknown command\r\n",
			})
			g.Expect(answering(t, answers, jobs)).To(Equal([]queue.Count{c.counted}))
		})
	}
}

func TestScoresAreUnderstoodInBothProtocols(t *testing.T) {
	t.Parallel()
	due := queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.Due}
	for name, c := range map[string]struct {
		reply string
		unix  int64
	}{
		"RESP2":           {"*2\r\n$1\r\nm\r\n$10\r\n4000000000\r\n", 4_000_000_000},
		"RESP3":           {"*1\r\n*2\r\n$1\r\nm\r\n,4000000000\r\n", 4_000_000_000},
		"infinite":        {"*1\r\n*2\r\n$1\r\nm\r\n,inf\r\n", 0},
		"no number":       {"*1\r\n*2\r\n$1\r\nm\r\n,nan\r\n", 0},
		"huge":            {"*2\r\n$1\r\nm\r\n$5\r\n1e300\r\n", 0},
		"in the past":     {"*1\r\n*2\r\n$1\r\nm\r\n,1\r\n", 0},
		"no more to come": {"*0\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			answers := withoutTransactions(map[string]string{"zcount": ":3\r\n", "zrange": c.reply})
			counts := must.Get(answering(t, answers, due))(g)
			g.Expect(counts[0].Waiting).To(BeEquivalentTo(3))
			g.Expect(counts[0].NextDue.IsZero()).To(Equal(c.unix == 0))
			if c.unix != 0 {
				g.Expect(counts[0].NextDue.Unix()).To(Equal(c.unix))
			}
		})
	}
}

func TestTransactionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	const ok, queued, discarded = "+OK\r\n", "+QUEUED\r\n", "-EXECABORT discarded\r\n"
	for name, c := range map[string]struct {
		multi, llen, exec, says string
	}{
		"no results":             {ok, queued, "*-1\r\n", "malformed"},
		"too few results":        {ok, queued, "*1\r\n:1\r\n", "malformed"},
		"too many results":       {ok, queued, "*3\r\n:1\r\n:1\r\n:1\r\n", "malformed"},
		"no array":               {ok, queued, ":1\r\n", "malformed"},
		"an error in it":         {ok, queued, "*2\r\n:1\r\n-NOPERM no\r\n", "PermissionDenied"},
		"a long error in it":     {ok, queued, "*2\r\n:1\r\n!9\r\nNOPERM no\r\n", "PermissionDenied"},
		"a negative one in it":   {ok, queued, "*2\r\n:1\r\n:-1\r\n", "negative"},
		"refused, then queued":   {ok, queued, discarded, "malformed"},
		"refused, then an error": {"-ERR no\r\n", "-WRONGTYPE x\r\n", discarded, "WrongType"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			_, err := answering(t, map[string]string{"multi": c.multi, "llen": c.llen, "exec": c.exec}, waiting("a"), waiting("b"))
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
}

// A server that rejects a transaction may send the remaining replies late. They must not be taken for replies to later
// commands.
func TestNoReplyOfARefusedTransactionIsLeftOver(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] == "multi", args[0] == "exec":
			return "-NOPERM no\r\n"
		case args[0] == "llen" && args[1] == "one":
			return ":1\r\n"
		case args[0] == "llen" && args[1] == "two":
			return ":2\r\n"
		default:
			return redistest.Usual
		}
	})
	source := func(keys ...string) queue.Source {
		source := queue.Source{Endpoint: auth.Endpoint{Address: server.Addr()}}
		for _, key := range keys {
			source.Queues = append(source.Queues, waiting(key))
		}
		return source
	}
	for range 20 {
		reader := newReader(t) // A new reader does not remember the rejection.
		g.Expect(reader.Observe(t.Context(), source("one", "two"))).To(Equal([]queue.Count{{Waiting: 1}, {Waiting: 2}}))
		g.Expect(reader.Observe(t.Context(), source("one"))).To(Equal([]queue.Count{{Waiting: 1}}))
	}
}
