// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// If a stream is trimmed, for example by XADD … MAXLEN, it loses entries that a slow group has not read yet. Redis 7.0
// counts these in the lag forever.
func TestEntriesThatWereTrimmedBeforeTheGroupGotThemDoNotWait(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 10, "x")
	s.do("xgroup create jobs workers 0", "xreadgroup group workers w count 3 streams jobs >", "xack jobs workers 0-1 0-2 0-3",
		"xtrim jobs maxlen 5")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 5}}))
	s.do("xreadgroup group workers w count 1 streams jobs >")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 4, InProgress: 1}}))
	s.do("xreadgroup group workers w count 100 streams jobs >", "xack jobs workers 0-6 0-7 0-8 0-9 0-10")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}), "all entries are acknowledged")
}

// Redis 7.0 also counts wrongly if an entry that the group has not read is deleted, and then the entries before it.
func TestEntriesThatWereDeletedBeforeTheGroupGotThemDoNotWait(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 3, "x")
	s.do("xgroup create jobs workers 0", "xreadgroup group workers w count 1 streams jobs >", "xack jobs workers 0-1",
		"xdel jobs 0-2", "xdel jobs 0-1")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 1}}))
	s.addEntries(4, 5, "x")
	s.do("xreadgroup group workers w count 3 streams jobs >", "xack jobs workers 0-3 0-4 0-5")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}), "all entries are acknowledged")
}

func TestAGroupMayBeAnywhere(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 10, "x")
	for position, waiting := range map[string]int64{
		"18446744073709551615-18446744073709551615": 0, // the highest possible ID: XRANGE rejects ranges that start after it
		"0-4 entriesread 1000":                      6, // It can be set to any number.
	} {
		s.do("xgroup create jobs workers " + position)
		s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: waiting}}), position)
		s.do("xgroup destroy jobs workers")
	}
}

// When the budget is used up, one page is still counted. The count is then a lower bound.
func TestOnePageIsCountedWhereTimeIsShort(t *testing.T) {
	s := newScene(t)
	s.addEntries(1, 300, "x")
	s.startInTheMiddle(50)
	s.reader.TimeToCount(s.endpoint, 0)
	s.Eventually(func(g Gomega) {
		s.do("config resetstat")
		counts, err := s.reader.Observe(s.t.Context(), queue.Source{Endpoint: s.endpoint, Queues: []queue.Queue{jobs}, CountLimit: countLimit})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(counts).To(HaveExactElements(And(HaveField("Waiting", BeEquivalentTo(100)), HaveField("Partial", BeTrue()))))
		g.Expect(s.calls("xrange")).To(Equal(1))
	}).WithTimeout(timeout).Should(Succeed())
}

// For any sequence of adding, reading, acknowledging, deleting and trimming: the entries after the last ID of the group
// wait, and those that are pending are in progress, unless the stream begins after them.
func TestAStreamIsCountedAsItIs(t *testing.T) {
	s := newScene(t)
	rapid.Check(t, func(t *rapid.T) {
		s.do("flushall")
		s.addEntries(1, 3, "x")
		s.do("xgroup create jobs workers " + rapid.SampledFrom([]string{"0", "$", "0-2"}).Draw(t, "group"))
		last := 3
		anyID := func() string { return fmt.Sprintf("0-%d", rapid.IntRange(1, last).Draw(t, "id")) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				added := rapid.IntRange(1, 4).Draw(t, "entries")
				s.addEntries(last+1, last+added, "x")
				last += added
			},
			"read": func(t *rapid.T) {
				count := rapid.IntRange(1, 3).Draw(t, "entries")
				err := s.server.Client().XReadGroup(s.t.Context(), &redis.XReadGroupArgs{
					Group: "workers", Consumer: "w", Streams: []string{"jobs", ">"}, Count: int64(count), Block: -1,
				}).Err()
				s.Expect(err).To(Or(BeNil(), MatchError(redis.Nil)))
			},
			"acknowledge": func(*rapid.T) { s.do("xack jobs workers " + anyID()) },
			"delete":      func(*rapid.T) { s.do("xdel jobs " + anyID()) },
			"trim":        func(t *rapid.T) { s.do(fmt.Sprintf("xtrim jobs maxlen %d", rapid.IntRange(0, 6).Draw(t, "entries"))) },
			"move":        func(*rapid.T) { s.do("xgroup setid jobs workers " + anyID()) },
			"":            func(t *rapid.T) { s.expectTruth(t) },
		})
	})
}

// entry returns the number of an entry: its ID is 0-<number>.
func entry(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "0-"))
	if err != nil {
		panic(err)
	}
	return n
}

// expectTruth compares an observation with the result of reading the whole stream.
func (s *scene) expectTruth(t *rapid.T) {
	ctx, client := s.t.Context(), s.server.Client()
	groups := must.Get(client.XInfoGroups(ctx, "jobs").Result())(s)
	behind := must.Get(client.XRange(ctx, "jobs", "("+groups[0].LastDeliveredID, "+").Result())(s)
	want := queue.Count{Waiting: int64(len(behind))}
	pending, err := client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "jobs", Group: "workers", Start: "-", End: "+", Count: 1000}).Result()
	s.Expect(err).NotTo(HaveOccurred())
	given := int64(0)
	for _, each := range pending {
		older := must.Get(client.XRangeN(ctx, "jobs", "-", each.ID, 1).Result())(s)
		want.Trimmed = want.Trimmed || len(older) == 0
		if len(older) > 0 {
			want.InProgress++
		}
		if len(older) > 0 && entry(each.ID) <= entry(groups[0].LastDeliveredID) {
			given++
		}
	}
	if want.Trimmed { // Then what the group is to be given again counts once.
		want.InProgress = given
	}
	if got := s.observe(jobs)[0]; got != want {
		t.Fatalf("%+v instead of %+v, of a group that the server describes as %+v", got, want, groups[0])
	}
}
