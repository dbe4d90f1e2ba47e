// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	timeout = 30 * time.Second
	// admin is a user with all permissions, even where the operator lacks some.
	admin = "admin"
	// countLimit is more than most tests have entries.
	countLimit = 10_000
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// newReader returns a reader whose connections are closed at the end of the test.
func newReader(t *testing.T) *queue.Reader {
	t.Helper()
	pool := startPool(t)
	return queue.NewReader(pool, topology.New(pool, logr.Discard()))
}

// startPool returns a pool that is closed at the end of the test. It is patient, since a machine may be busy.
func startPool(t *testing.T) *connection.Pool {
	t.Helper()
	return startPoolOf(t, connection.Options{CallTimeout: timeout})
}

func startPoolOf(t *testing.T, options connection.Options) *connection.Pool {
	t.Helper()
	pool := connection.NewPool(options)
	var running sync.WaitGroup
	running.Go(func() { _ = pool.Start(t.Context()) })
	t.Cleanup(running.Wait)
	return pool
}

// scene is a real server and a reader.
type scene struct {
	Gomega
	t        *testing.T
	server   *redistest.Server
	reader   *queue.Reader
	endpoint auth.Endpoint
}

// newScene returns the scene of a test, which it runs in parallel with others.
func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	server := redistest.New(t, redistest.Options{User: admin})
	s := &scene{
		Gomega: NewWithT(t), t: t, server: server, reader: newReader(t),
		endpoint: auth.Endpoint{Address: server.Addr()},
	}
	s.reader.TimeToCount(s.endpoint, time.Hour)
	return s
}

// do runs commands, whose arguments are separated by spaces.
func (s *scene) do(commands ...string) {
	s.t.Helper()
	for _, command := range commands {
		var args []any
		for word := range strings.FieldsSeq(command) {
			args = append(args, word)
		}
		s.Expect(s.server.Client().Do(s.t.Context(), args...).Err()).To(Succeed(), command)
	}
}

// observe reads queues, and retries if the machine is too busy to answer in time.
func (s *scene) observe(queues ...queue.Queue) []queue.Count {
	s.t.Helper()
	return s.observeUpTo(countLimit, queues...)
}

func (s *scene) observeUpTo(limit int64, queues ...queue.Queue) []queue.Count {
	s.t.Helper()
	var counts []queue.Count
	s.Eventually(func() (err error) {
		counts, err = s.reader.Observe(s.t.Context(), queue.Source{Endpoint: s.endpoint, Queues: queues, CountLimit: limit})
		return err
	}).WithTimeout(timeout).Should(Succeed())
	return numbers(counts)
}

// numbers returns the counts without the other fields of a stream.
func numbers(counts []queue.Count) []queue.Count {
	for i := range counts {
		counts[i].Progress, counts[i].Partial = "", false
	}
	return counts
}

// expectRefusal expects that reading the queues fails with this reason.
func (s *scene) expectRefusal(reason failure.Reason, queues ...queue.Queue) {
	s.t.Helper()
	s.Eventually(func() failure.Reason {
		_, err := s.reader.Observe(s.t.Context(), queue.Source{Endpoint: s.endpoint, Queues: queues, CountLimit: countLimit})
		if err == nil {
			return ""
		}
		return failure.Classify(err).Reason
	}).WithTimeout(timeout).Should(Equal(reason))
}

// calls returns how often the server has run a command since its statistics were reset.
func (s *scene) calls(command string) int {
	s.t.Helper()
	stats := must.Get(s.server.Client().Info(s.t.Context(), "commandstats").Result())(s)
	line := regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(command) + `:calls=(\d+),.*rejected_calls=(\d+)`).FindStringSubmatch(stats)
	if line == nil {
		return 0
	}
	done := must.Get(strconv.Atoi(line[1]))(s)
	rejected := must.Get(strconv.Atoi(line[2]))(s)
	return done + rejected
}

// waiting returns a list.
func waiting(key string) queue.Queue { return queue.Queue{Key: key, Type: queue.List} }

// inProgress returns a list of messages in progress.
func inProgress(key string) queue.Queue {
	return queue.Queue{Key: key, Type: queue.List, InProgress: true}
}

// ofType returns a key of a type.
func ofType(key string, is queue.Type) queue.Queue { return queue.Queue{Key: key, Type: is} }

// everyType returns a queue of each type that has a command of its own, all with the same key.
func everyType(key string) map[string]queue.Queue {
	return map[string]queue.Queue{
		"list":           ofType(key, queue.List),
		"set":            ofType(key, queue.Set),
		"hash":           ofType(key, queue.Hash),
		"sorted set":     ofType(key, queue.SortedSet),
		"due members":    {Key: key, Type: queue.SortedSet, Window: queue.Due},
		"live members":   {Key: key, Type: queue.SortedSet, Window: queue.Live},
		"stream":         ofType(key, queue.Stream),
		"consumer group": {Key: key, Type: queue.Stream, Group: "workers"},
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill, drain string
		queue       queue.Queue
	}{
		"a list":           {"lpush key 1 2 3", "lpop key 3", ofType("key", queue.List)},
		"the zero type":    {"lpush key 1 2 3", "lpop key 3", ofType("key", "")},
		"a set":            {"sadd key 1 2 3", "srem key 1 2 3", ofType("key", queue.Set)},
		"a hash":           {"hset key 1 1 2 2 3 3", "hdel key 1 2 3", ofType("key", queue.Hash)},
		"a sorted set":     {"zadd key 1 1 2 2 inf 3", "zrem key 1 2 3", ofType("key", queue.SortedSet)},
		"the window All":   {"zadd key 1 1 2 2 inf 3", "zrem key 1 2 3", queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.All}},
		"a list in work":   {"lpush key 1 2 3", "lpop key 3", inProgress("key")},
		"a hash in work":   {"hset key 1 1 2 2 3 3", "hdel key 1 2 3", queue.Queue{Key: "key", Type: queue.Hash, InProgress: true}},
		"members that are": {"zadd key 1 1 2 2 3 3", "zrem key 1 2 3", queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.Due, InProgress: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			three := queue.Count{Waiting: 3}
			if c.queue.InProgress {
				three = queue.Count{InProgress: 3}
			}
			other := waiting("other")
			s.Expect(s.observe(c.queue)).To(Equal([]queue.Count{{}}), "missing")
			s.do(c.fill, "lpush other 1")
			s.Expect(s.observe(c.queue)).To(Equal([]queue.Count{three}))
			s.Expect(s.observe(other, c.queue)).To(Equal([]queue.Count{{Waiting: 1}, three}))
			s.do(c.drain)
			s.Expect(s.observe(c.queue)).To(Equal([]queue.Count{{}}), "drained")
		})
	}
}

func TestKeysAreBytes(t *testing.T) {
	s := newScene(t)
	for _, key := range []string{"a b\x00*\r\n", strings.Repeat("k", 1024), "\xff", "("} {
		s.Expect(s.server.Client().SAdd(t.Context(), "set"+key, 1, 2).Err()).To(Succeed())
		s.Expect(s.server.Client().LPush(t.Context(), "list"+key, 1).Err()).To(Succeed())
		s.Expect(s.observe(waiting("list" + key))).To(Equal([]queue.Count{{Waiting: 1}}))
		s.Expect(s.observe(waiting("list"+key), ofType("set"+key, queue.Set))).To(Equal([]queue.Count{{Waiting: 1}, {Waiting: 2}}))
	}
}

func TestNoQueuesHoldNothing(t *testing.T) {
	s := newScene(t)
	s.Expect(s.observe()).To(BeEmpty())
}

// A key of the wrong type fails only this read; the connection stays usable.
func TestOtherTypesAreErrors(t *testing.T) {
	s := newScene(t)
	for name, is := range everyType("key") {
		s.Expect(s.observe(is)).To(HaveLen(1), name)
		s.do("set key text")
		s.expectRefusal(failure.ReasonWrongType, is)
		s.expectRefusal(failure.ReasonWrongType, waiting("other"), is)
		s.Expect(s.observe(waiting("other"))).To(Equal([]queue.Count{{}}), name)
		s.do("del key")
		s.Expect(s.observe(is)).To(Equal([]queue.Count{{}}), name)
	}
}

func TestManyQueuesAreOneRoundTrip(t *testing.T) {
	s := newScene(t)
	var queues []queue.Queue
	for i := range 2 {
		for name, is := range everyType(fmt.Sprint("key ", i)) {
			is.Key += name
			queues = append(queues, is)
		}
	}
	s.Expect(queues).To(HaveLen(16))
	s.observe(queues...) // This opens a connection.
	s.do("config resetstat")
	s.observe(queues...)
	for command, times := range map[string]int{
		"multi": 1, "exec": 1, "llen": 2, "scard": 2, "hlen": 2, "zcard": 2, "zcount": 4, "zrange": 2,
		"xlen": 4, "xinfo|groups": 2, "xrange": 0, "hello": 0,
	} {
		s.Expect(s.calls(command)).To(Equal(times), command)
	}
}

// Most ScaledJobs have one list.
func TestOneKeyNeedsNoTransaction(t *testing.T) {
	s := newScene(t)
	s.observe(waiting("key"))
	s.do("config resetstat")
	s.observe(waiting("key"))
	s.observe(ofType("key", queue.Set))
	s.Expect(s.calls("llen")).To(Equal(1))
	s.Expect(s.calls("scard")).To(Equal(1))
	s.Expect(s.calls("multi")).To(BeZero())
}

// halfPast is a time that can be expressed in each unit.
var halfPast = time.Unix(1_700_000_000, int64(500*time.Millisecond))

func TestWindowsHaveSharpEdges(t *testing.T) {
	t.Parallel()
	for unit, c := range map[queue.Unit]struct {
		due, later string
		next       time.Time
	}{
		"":                 {"1700000000.5", "1700000000.75", time.Unix(1_700_000_000, 750e6)},
		queue.Seconds:      {"1700000000.5", "1700000001", time.Unix(1_700_000_001, 0)},
		queue.Milliseconds: {"1700000000500", "1700000000501", halfPast.Add(time.Millisecond)},
		// Scores are 64-bit floating point numbers. At this size their distance is 256.
		queue.Nanoseconds: {"1700000000500000000", "1700000000500000256", halfPast.Add(256)},
		queue.BullMQ:      {"6963200002052095", "6963200002052096", halfPast.Add(time.Millisecond)},
	} {
		t.Run("unit "+string(unit), func(t *testing.T) {
			s := newScene(t)
			s.reader.SetClock(halfPast)
			s.do("zadd key -inf first "+c.due+" now "+c.later+" later inf never", "zadd leases inf never")
			window := func(key string, is queue.Window) queue.Queue {
				return queue.Queue{Key: key, Type: queue.SortedSet, Window: is, Unit: unit}
			}
			counts := s.observe(window("key", queue.All), window("key", queue.Due), window("key", queue.Live), window("leases", queue.Due))
			s.Expect(counts[1].NextDue).To(BeTemporally("==", c.next))
			counts[1].NextDue = time.Time{}
			s.Expect(counts).To(Equal([]queue.Count{{Waiting: 4}, {Waiting: 2}, {Waiting: 2}, {}}))
			s.reader.SetClock(c.next)
			s.Expect(s.observe(window("key", queue.Due))).To(Equal([]queue.Count{{Waiting: 3}}), "the next member is due at that time")
		})
	}
}

// A due message that a worker has taken counts as in progress, and NextDue is still reported.
func TestMembersInProgressFallDue(t *testing.T) {
	s := newScene(t)
	s.reader.SetClock(halfPast)
	s.do("zadd key 1 a 1700000100 b")
	is := queue.Queue{Key: "key", Type: queue.SortedSet, Window: queue.Due, InProgress: true}
	counts := s.observe(is)
	s.Expect(counts[0].InProgress).To(BeEquivalentTo(1))
	s.Expect(counts[0].NextDue.Unix()).To(BeEquivalentTo(1_700_000_100))
}

// A member may be larger than the operator accepts. That must not affect other queues.
func TestAHugeMemberIsAnErrorOfItsQueue(t *testing.T) {
	s := newScene(t)
	s.do("zadd key 4000000000 " + huge)
	_, err := s.reader.Observe(t.Context(), queue.Source{
		Endpoint: s.endpoint, Queues: []queue.Queue{{Key: "key", Type: queue.SortedSet, Window: queue.Due}},
	})
	s.Expect(err).To(MatchError(ContainSubstring("too large")))
	_, err = s.reader.Observe(t.Context(), queue.Source{Endpoint: s.endpoint, Queues: []queue.Queue{waiting("emails")}})
	s.Expect(err).NotTo(HaveOccurred(), "the server is not marked down")
}
