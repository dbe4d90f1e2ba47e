// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// oldest returns since when the oldest message of each queue is outstanding, in seconds since 1970; 0 if that is not
// known.
func (s *scene) oldest(queues ...queue.Queue) []int64 {
	s.t.Helper()
	source := queue.Source{Endpoint: s.endpoint, Queues: queues, CountLimit: countLimit}
	counts := must.Get(s.reader.Observe(s.t.Context(), source))(s)
	times, _ := s.reader.Oldest(s.t.Context(), source, counts, make([]time.Time, len(queues)))
	seconds := make([]int64, len(times))
	for i, at := range times {
		if !at.IsZero() {
			seconds[i] = at.Unix()
		}
	}
	return seconds
}

func TestOldest(t *testing.T) {
	s := newScene(t)
	now := halfPast.Unix()
	s.reader.SetClock(halfPast)
	due := queue.Queue{Key: "due", Type: queue.SortedSet, Window: queue.Due}
	list := queue.Queue{Key: "list", Type: queue.List}
	plain := queue.Queue{Key: "jobs", Type: queue.Stream}
	s.Expect(s.oldest(list, due, jobs, plain)).To(Equal([]int64{0, 0, 0, 0}), "empty")

	id := func(second int64) string { return fmt.Sprint(now+second, "000-0") }
	s.do("lpush list a", fmt.Sprintf("zadd due %d a %d b %d c", now-7, now-5, now+5),
		"xadd jobs "+id(-30)+" a b", "xadd jobs "+id(-20)+" a b", "xadd jobs "+id(-10)+" a b", "xgroup create jobs workers 0")
	s.Expect(s.oldest(list, due, jobs, plain)).To(Equal([]int64{0, now - 7, now - 30, now - 30}), "a list has no times")
	s.do("xreadgroup group workers w count 2 streams jobs >")
	s.Expect(s.oldest(jobs)).To(Equal([]int64{now - 30}), "pending")
	s.do("xack jobs workers " + id(-30))
	s.Expect(s.oldest(jobs)).To(Equal([]int64{now - 20}))
	s.do("xack jobs workers " + id(-20))
	s.Expect(s.oldest(jobs, plain)).To(Equal([]int64{now - 10, now - 30}), "not read by the group")
	s.do("xreadgroup group workers w count 2 streams jobs >", "xack jobs workers "+id(-10))
	s.Expect(s.oldest(jobs)).To(Equal([]int64{0}), "all done")
}

// IDs and scores may be any numbers, and a message may be larger than a reply. Then the time is not known, and the
// count is.
func TestOldestOfOddMessages(t *testing.T) {
	s := newScene(t)
	s.reader.SetClock(halfPast)
	due := queue.Queue{Key: "due", Type: queue.SortedSet, Window: queue.Due}
	s.do("xadd jobs 1-1 a b", "xgroup create jobs workers 0", "zadd due -inf a")
	s.Expect(s.oldest(jobs, due)).To(Equal([]int64{0, 0}))
	s.do("del jobs due", "xadd jobs "+fmt.Sprint(halfPast.Add(time.Hour).UnixMilli())+"-1 a b", "xgroup create jobs workers 0",
		"zadd due 1600000000 "+huge)
	s.Expect(s.oldest(jobs, due)).To(Equal([]int64{0, 0}))
	s.Expect(s.observe(jobs, due)).To(Equal([]queue.Count{{Waiting: 1}, {Waiting: 1}}), "the server is not marked down")
}
