// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/queue"
)

// A stream that is kept short, as by XADD … MAXLEN, loses entries that a slow group was not given. Since then Redis 7.0 tells a lag that
// includes those for ever.
func TestEntriesThatWereTrimmedBeforeTheGroupGotThemDoNotWait(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.addEntries(1, 10, "x")
	s.do("xgroup create jobs workers 0", "xreadgroup group workers w count 3 streams jobs >", "xack jobs workers 0-1 0-2 0-3",
		"xtrim jobs maxlen 5")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 5}}))
	s.do("xreadgroup group workers w count 1 streams jobs >")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 4, InProgress: 1}}))
	s.do("xreadgroup group workers w count 100 streams jobs >", "xack jobs workers 0-6 0-7 0-8 0-9 0-10")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}), "all are done")
}

// A group may be put behind all that can ever be: XRANGE refuses to look beyond it.
func TestAGroupAtTheLastIDThereCanBeWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.addEntries(1, 10, "x")
	s.do("xgroup create jobs workers 18446744073709551615-18446744073709551615")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}))
}

// ENTRIESREAD is what whoever sets the position of a group says.
func TestAGroupSaidToHaveReadMoreThanThereIsIsCounted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.addEntries(1, 10, "x")
	s.do("xgroup create jobs workers 0-4 entriesread 1000")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 6}}))
}

// One who takes back a message that no worker has yet makes Redis 7.0 count wrongly too, once those before it are gone.
func TestEntriesThatWereDeletedBeforeTheGroupGotThemDoNotWait(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.addEntries(1, 3, "x")
	s.do("xgroup create jobs workers 0", "xreadgroup group workers w count 1 streams jobs >", "xack jobs workers 0-1",
		"xdel jobs 0-2", "xdel jobs 0-1")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{Waiting: 1}}))
	s.addEntries(4, 5, "x")
	s.do("xreadgroup group workers w count 3 streams jobs >", "xack jobs workers 0-3 0-4 0-5")
	s.Expect(s.observe(jobs)).To(Equal([]queue.Count{{}}), "all are done")
}
