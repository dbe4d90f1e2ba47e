// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tracking

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

// A key that must not be read for a minute is not read again with one that is due after a second.
func TestEachRefusedKeyHasItsOwnRetry(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newKeySet(func(ID, coalesce.Cause) { /* not looked at */ }, budgets())
	for _, name := range []string{"soon", "late"} {
		s.add(listOf(name), ID{Name: name})
	}
	s.begin()
	g.Expect(s.take(10)).To(ConsistOf(listOf("soon"), listOf("late")))
	now := time.Now()
	s.refuse(listOf("late"), now.Add(time.Minute))
	s.refuse(listOf("soon"), now.Add(time.Second))
	g.Expect(s.retry(now)).To(Equal(now.Add(time.Second)))
	take := func() []Key { return s.take(10) }
	g.Expect(s.retry(now.Add(time.Second))).To(Equal(now.Add(time.Minute)))
	g.Eventually(take).WithTimeout(timeout).Should(ConsistOf(listOf("soon")))
	g.Consistently(take).Should(BeEmpty())
	s.refuse(listOf("soon"), now.Add(2*time.Minute))
	g.Expect(s.retry(now.Add(time.Minute))).To(Equal(now.Add(2 * time.Minute)))
	g.Eventually(take).WithTimeout(timeout).Should(ConsistOf(listOf("late")))
	s.remove(listOf("soon"), ID{Name: "soon"})
	g.Expect(s.retry(now.Add(2 * time.Minute))).To(BeZero())
}
