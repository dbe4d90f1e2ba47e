// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// readAll adds entries with the IDs from 1 to n, and lets the group read them.
func (s *scene) readAll(n int) {
	s.t.Helper()
	s.addEntries(1, n, "x")
	s.do("xgroup create jobs workers 0", fmt.Sprintf("xreadgroup group workers w count %d streams jobs >", n))
}

func TestPendingEntriesThatWereTrimmedDoNotCount(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 5}}), "entries that are there count")
	s.do("xtrim jobs maxlen 3")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 3, Trimmed: true}}))
	s.addEntries(6, 7, "x")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 2, InProgress: 3, Trimmed: true}}))
	s.do("xtrim jobs maxlen 2")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 2, Trimmed: true}}), "all that were read are gone")
	s.do("xtrim jobs maxlen 0")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Trimmed: true}}), "empty")
	s.do("xack jobs workers 0-1 0-2 0-3 0-4 0-5")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}))
}

func TestNothingIsCountedWhereAllPendingEntriesWereTrimmed(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.do("xack jobs workers 0-4 0-5", "xtrim jobs maxlen 2", "config resetstat")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Trimmed: true}}))
	s.Expect(s.calls("xpending")).To(Equal(1))
}

// This is the command that the operator suggests. With such a long time, it takes no entry from a worker.
func TestXautoclaimRemovesOnlyWhatIsGone(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.do("xtrim jobs maxlen 3", "xautoclaim jobs workers other 9999999999 0")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 3}}))
	pending := must.Get(s.server.Client().XPending(t.Context(), "jobs", "workers").Result())(s)
	s.Expect(pending.Consumers).To(Equal(map[string]int64{"w": 3}))
}

// An entry that is missing in the middle cannot be seen.
func TestPendingEntriesThatWereDeletedInTheMiddleCount(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.do("xdel jobs 0-3")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 5}}))
	s.do("xdel jobs 0-1")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 4, Trimmed: true}}))
}

func TestPendingEntriesCostNoFurtherRoundTrip(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.do("config resetstat")
	s.observe(jobs)
	s.Expect(s.calls("xpending")).To(BeZero(), "no entry was ever removed")
	s.Expect(s.calls("xrange")).To(BeZero(), "no entry was ever removed")
	s.do("xack jobs workers 0-1", "xtrim jobs maxlen 4", "config resetstat")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 4}}))
	s.Expect(s.calls("xpending")).To(Equal(1), "in the round trip that counts the entries after the last one that was read")
	s.Expect(s.calls("xrange")).To(Equal(2))
}

// A page that is too large is read again without the other commands.
func TestPendingEntriesOfAStreamWithLargeEntries(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.addEntries(6, 80, huge[:80<<10])
	s.do("xtrim jobs maxlen 77")
	s.Eventually(func() queue.Count { return s.observeUpTo(20, jobs)[0] }).WithTimeout(timeout).
		Should(And(HaveField("InProgress", BeEquivalentTo(2)), HaveField("Trimmed", BeTrue())))
}

// Nobody knows the ID of an entry that is too large for a reply. Then all count, and nothing fails.
func TestPendingEntriesBeforeAHugeEntryCount(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.addEntries(6, 6, huge)
	s.do("xreadgroup group workers w streams jobs >", "xtrim jobs maxlen 1")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 6}}))
}

func TestManyPendingEntriesAreCountedInPages(t *testing.T) {
	s := newScene(t)
	s.readAll(2500)
	s.do("xtrim jobs maxlen 2100")
	s.Expect(s.observeUpTo(countLimit, jobs)).To(Equal([]queue.Count{{InProgress: 2100, Trimmed: true}}))
	s.do("config resetstat")
	counts, err := s.reader.Observe(t.Context(), queue.Source{Endpoint: s.endpoint, Queues: []queue.Queue{jobs}, CountLimit: 1500})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(counts).To(HaveExactElements(And(
		HaveField("InProgress", BeEquivalentTo(2000)), HaveField("Partial", BeTrue()), HaveField("Trimmed", BeTrue()))))
	s.Expect(s.calls("xpending")).To(Equal(3), "more make no difference")
}

// Users of earlier versions may not run XPENDING. Then everything counts as before, and the server is not asked again
// soon.
func TestPendingEntriesCountWhereTheServerForbidsToAsk(t *testing.T) {
	s := newScene(t)
	s.readAll(5)
	s.do("xtrim jobs maxlen 3", "acl setuser default -xpending", "config resetstat", "acl log reset")
	for range 3 {
		s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{InProgress: 5}}))
	}
	s.Expect(s.calls("multi")).To(Equal(3), "the transaction is not affected")
	refused := must.Get(s.server.Client().ACLLog(t.Context(), 10).Result())(s)
	s.Expect(refused).To(HaveExactElements(And(HaveField("Object", "xpending"), HaveField("Count", BeEquivalentTo(1)))))
}

func TestPendingEntriesOfAGroupThatWasRemovedSince(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	answers := withoutTransactions(gone("-NOGROUP xxxxxxxxxx\r\n", firstEntry))
	answers["xlen"] = ":200\r\n"
	g.Expect(answering(t, answers, jobs)).To(Equal([]queue.Count{{InProgress: 1}}))
}
