// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// auditing is an audit of a key that is read at given seconds.
type auditing struct {
	audit        Audit
	subscribedAt time.Time
	heardAt      time.Time
	silentUntil  time.Time
	missed       int
}

func (a *auditing) key() Subscription {
	return Subscription{Present: !a.subscribedAt.IsZero(), Since: a.subscribedAt, HeardAt: a.heardAt}
}

func second(s float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
}

// read reads a depth, which takes a tenth of a second.
func (a *auditing) read(at float64, depth int64) {
	if a.audit.Read(depth, second(at), second(at+0.1), a.key(), a.silentUntil) {
		a.missed++
	}
}

func (a *auditing) disprovedAt(at float64) bool {
	return a.audit.Disproved(second(at), a.key(), a.silentUntil)
}

func TestGrowthWithoutEventsDisproves(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	a := auditing{subscribedAt: second(0)}
	a.read(1, 0)
	a.read(6, 1)
	g.Expect(a.disprovedAt(10)).To(BeFalse(), "one miss may be a command without an event")
	a.read(11, 1)
	g.Expect(a.disprovedAt(15)).To(BeFalse(), "the depth did not grow")
	a.read(16, 5)
	g.Expect(a.disprovedAt(17)).To(BeFalse(), "the event may still come")
	g.Expect(a.disprovedAt(17.1)).To(BeTrue())
	a.read(21, 5)
	g.Expect(a.disprovedAt(21)).To(BeTrue())
	g.Expect(a.missed).To(Equal(2))

	a.heardAt = second(22)
	g.Expect(a.disprovedAt(22)).To(BeFalse(), "one event is enough as proof")
	a.read(26, 9)
	a.read(31, 9)
	g.Expect(a.missed).To(Equal(2))
	a.read(36, 10)
	g.Expect(a.disprovedAt(60)).To(BeFalse(), "two new misses are needed")
}

func TestAnnouncedGrowthIsNotMissed(t *testing.T) {
	t.Parallel()
	for name, heardAt := range map[string]float64{
		"before the read": 5,
		"during the read": 6.05,
		"after the read":  6.9,
		"while the former read was not reported yet": 1.05,
		"long after, which may be of something else": 10,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := auditing{subscribedAt: second(0)}
			a.read(1, 0)
			if heardAt <= 6.1 {
				a.heardAt = second(heardAt)
			}
			a.read(6, 1)
			a.heardAt = second(heardAt)
			a.read(11, 1)
			NewWithT(t).Expect(a.missed).To(BeZero())
		})
	}
}

func TestGrowthIsNotMissedWithoutASubscription(t *testing.T) {
	t.Parallel()
	for name, subscribedAt := range map[string]time.Time{
		"none":                      {},
		"one since the last read":   second(3),
		"one during the first read": second(1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := auditing{subscribedAt: subscribedAt}
			a.read(1, 0)
			a.read(6, 1)
			a.read(11, 1)
			NewWithT(t).Expect(a.missed).To(BeZero())
		})
	}
}

func TestANewSubscriptionBeginsAnew(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	a := auditing{subscribedAt: second(0)}
	for i := range 4 {
		a.read(float64(5*i+1), int64(i))
	}
	g.Expect(a.disprovedAt(20)).To(BeTrue())
	a.subscribedAt = second(20)
	a.read(21, 5)
	g.Expect(a.disprovedAt(30)).To(BeFalse())
}

// If the setting says that the server publishes nothing, no event is expected. Misses before the setting was known do
// not count any longer.
func TestGrowthIsNotMissedWhereTheServerIsSilentByItsOwnWord(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	a := auditing{subscribedAt: second(0)}
	for i := range 4 {
		a.read(float64(5*i+1), int64(i))
	}
	g.Expect(a.disprovedAt(18)).To(BeTrue())
	missed := a.missed
	a.silentUntil = second(18)
	g.Expect(a.disprovedAt(18)).To(BeFalse())
	for i := range 4 {
		a.silentUntil = second(float64(20 + 5*i))
		a.read(float64(5*i+21), int64(10+i))
	}
	g.Expect(a.disprovedAt(60)).To(BeFalse())
	g.Expect(a.missed).To(Equal(missed))

	a.read(41, 20)
	a.read(46, 21)
	a.read(51, 22)
	g.Expect(a.disprovedAt(60)).To(BeTrue(), "events are expected from then on")
}
