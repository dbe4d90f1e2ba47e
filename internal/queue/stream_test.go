// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// huge is larger than the longest string that the operator accepts.
var huge = strings.Repeat("x", 1<<20+1)

// jobs is the stream "jobs" with the group "workers".
var jobs = queue.Queue{Key: "jobs", Type: queue.Stream, Group: "workers"}

// addEntries adds entries with the IDs from first to last and this value.
func (s *scene) addEntries(first, last int, value string) {
	s.t.Helper()
	_, err := s.server.Client().Pipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
		for id := first; id <= last; id++ {
			pipe.XAdd(s.t.Context(), &redis.XAddArgs{Stream: "jobs", ID: fmt.Sprintf("0-%d", id), Values: []string{"value", value}})
		}
		return nil
	})
	s.Expect(err).NotTo(HaveOccurred())
}

// startInTheMiddle makes the group begin after this many entries. Redis then does not know its lag.
func (s *scene) startInTheMiddle(after int) {
	s.t.Helper()
	s.do(fmt.Sprintf("xgroup create jobs workers 0-%d", after))
	info := must.Get(s.server.Client().XInfoGroups(s.t.Context(), "jobs").Result())(s)
	s.Expect(info[0].Lag).To(BeEquivalentTo(-1), "the server does not know the lag")
	s.do("config resetstat")
}

// eventuallyCounts waits until this number of entries is counted. If there is little time, the count may be lower, but
// never higher. Then it waits before it asks again, until there is time for counting: 0.1 s more for each second.
func (s *scene) eventuallyCounts(limit, want int64) {
	s.t.Helper()
	s.Eventually(func() int64 {
		counted := s.observeUpTo(limit, jobs)[0].Waiting
		s.Expect(counted).To(BeNumerically("<=", want))
		return counted
	}).WithTimeout(timeout).WithPolling(3 * time.Second).Should(Equal(want))
}

func TestAStreamWithoutAGroupWaits(t *testing.T) {
	s := newScene(t)
	for _, is := range []queue.Queue{{Key: "jobs", Type: queue.Stream}, {Key: "jobs", Type: queue.Stream, InProgress: true}} {
		s.do("del jobs")
		s.Expect(s.observe(is)).To(Equal([]queue.Count{{}}), "missing")
		s.addEntries(1, 3, "x")
		s.Expect(s.observe(is)).To(Equal([]queue.Count{{Waiting: 3}}))
		s.do("xtrim jobs maxlen 0")
		s.Expect(s.observe(is)).To(Equal([]queue.Count{{}}), "empty")
	}
}

func TestAGroupHasALagAndPendingEntries(t *testing.T) {
	s := newScene(t)
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}), "missing")
	s.do("xgroup create jobs others $ mkstream")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}), "an empty stream needs no group")
	s.addEntries(1, 5, "x")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 1, GroupMissing: true}}))
	s.do("xgroup create jobs workers 0")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 5}}))
	s.do("xreadgroup group workers w count 2 streams jobs >")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 3, InProgress: 2}}))
	s.do("xack jobs workers 0-1", "xreadgroup group workers w streams jobs >")
	s.Expect(s.observe(waiting("other"), jobs)).To(Equal([]queue.Count{{}, {InProgress: 4}}))
	s.do("xgroup destroy jobs workers")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 1, GroupMissing: true}}))
}

func TestEntriesAreCountedAfterADeletion(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 10, "x")
	s.do("xgroup create jobs workers 0", "xreadgroup group workers w count 2 streams jobs >", "xdel jobs 0-2 0-5", "config resetstat")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 7, InProgress: 2}}))
	s.Expect(s.calls("xrange")).To(BeNumerically(">", 0))
}

func TestEntriesAreCountedInPages(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 300, "x")
	s.startInTheMiddle(50)
	s.Eventually(func(g Gomega) {
		s.do("config resetstat")
		g.Expect(s.observe(jobs, waiting("other"))).To(Equal([]queue.Count{{Waiting: 250}, {}}))
		g.Expect(s.calls("xrange")).To(Equal(3))
		g.Expect(s.calls("multi")).To(Equal(1))
	}).WithTimeout(timeout).Should(Succeed())
	for limit, counted := range map[int64]int64{0: 0, 1: 1, 100: 100, 120: 120, 249: 249, 250: 250, 251: 250} {
		s.eventuallyCounts(limit, counted)
	}
	s.do("xgroup setid jobs workers 0-200")
	s.eventuallyCounts(countLimit, 100)
}

// XRANGE returns whole entries, and the size of a reply is limited.
func TestEntriesAreCountedInPagesOfAFittingSize(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 60, huge[:80<<10])
	s.startInTheMiddle(7)
	s.eventuallyCounts(15, 15) // two pages of ten
}

func TestAHugeEntryEndsTheCounting(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 13, "x")
	s.addEntries(14, 16, huge)
	s.startInTheMiddle(2)
	s.eventuallyCounts(countLimit, 12) // the eleven entries before it, and itself
	_, err := s.reader.Observe(t.Context(), queue.Source{Endpoint: s.endpoint, Queues: []queue.Queue{waiting("other")}})
	s.Expect(err).NotTo(HaveOccurred(), "the server is not down")
}

// When the time is up, the count so far is returned. It is never too high.
func TestCountingEndsInTime(t *testing.T) {
	s := newScene(t)
	const entries = 5000
	s.addEntries(1, entries, "x")
	s.startInTheMiddle(2)
	far := tcpproxy.New(t, s.server.Addr())
	s.endpoint = auth.Endpoint{Address: far.Addr()}
	s.observe(waiting("other")) // This opens a connection.
	far.Delay(20 * time.Millisecond)
	counted := s.observe(jobs)[0].Waiting
	s.Expect(counted).To(And(BeNumerically(">", 0), BeNumerically("<", entries)))
	s.Expect(counted%100).To(BeZero(), "only full pages are counted")
}

func TestCountingNeedsARight(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 4, "x")
	s.do("acl setuser default -xrange", "xgroup create jobs workers 0")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 4}}), "XRANGE is not needed if the server knows the lag")
	s.do("xgroup setid jobs workers 0-2")
	s.expectRefusal(failure.ReasonPermissionDenied, jobs)
}
