// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tracking

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/budget"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
)

// A key that must not be read for a minute is not read again with one that is due after a second.
func TestEachRefusedKeyHasItsOwnRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := newKeySet(func(ID, coalesce.Cause) { /* not looked at */ }, &budget.Namespaces{})
		for _, name := range []string{"soon", "late"} {
			s.add(listOf(name), ID{Name: name}, false)
		}
		s.begin()
		g.Expect(s.take(10)).To(ConsistOf(listOf("soon"), listOf("late")))
		begun := time.Now()
		s.refuse(listOf("late"), begun.Add(time.Minute))
		s.refuse(listOf("soon"), begun.Add(time.Second))
		g.Expect(s.retry(begun)).To(Equal(begun.Add(time.Second)))
		time.Sleep(time.Second)
		g.Expect(s.retry(time.Now())).To(Equal(begun.Add(time.Minute)))
		g.Expect(s.take(10)).To(ConsistOf(listOf("soon")))
		s.refuse(listOf("soon"), begun.Add(2*time.Minute))
		time.Sleep(58 * time.Second)
		g.Expect(s.take(10)).To(BeEmpty())
		time.Sleep(time.Second)
		g.Expect(s.retry(time.Now())).To(Equal(begun.Add(2 * time.Minute)))
		g.Expect(s.take(10)).To(ConsistOf(listOf("late")))
		s.remove(listOf("soon"), ID{Name: "soon"})
		g.Expect(s.retry(begun.Add(2 * time.Minute))).To(BeZero())
	})
}
