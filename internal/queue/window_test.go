// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
)

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
			t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	s := newScene(t)
	s.do("zadd key 4000000000 " + huge)
	_, err := s.reader.Observe(t.Context(), queue.Source{
		Endpoint: s.endpoint, Queues: []queue.Queue{{Key: "key", Type: queue.SortedSet, Window: queue.Due}},
	})
	s.Expect(err).To(MatchError(ContainSubstring("too large")))
	_, err = s.reader.Observe(t.Context(), queue.Source{Endpoint: s.endpoint, Queues: []queue.Queue{waiting("emails")}})
	s.Expect(err).NotTo(HaveOccurred(), "the server is not marked down")
}
