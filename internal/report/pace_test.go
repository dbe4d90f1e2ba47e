// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// earliest and latest are the bounds of the time after which numbers are written if few have changed.
const earliest, latest = lateness * 3 / 4, lateness * 5 / 4

func TestLate(t *testing.T) {
	t.Parallel()
	for range 100 {
		NewWithT(t).Expect(late()).To(And(BeNumerically(">=", earliest), BeNumerically("<=", latest)))
	}
}

// pacedBy returns a pace of writes that take so long.
func pacedBy(took time.Duration) *pace {
	var p pace
	for range 100 {
		p.note(took)
	}
	return &p
}

// Many statuses of a namespace are written one after the other, two at a time. Another namespace does not wait for them.
func TestNumbersOfANamespaceArePaced(t *testing.T) {
	t.Parallel()
	g, now := NewWithT(t), time.Unix(1000, 0)
	p := pacedBy(10 * time.Millisecond)
	var last time.Time
	for range 1000 {
		last = p.book("crowd", false, now)
	}
	g.Expect(last).To(BeTemporally("~", now.Add(5*time.Second+lateness), 500*time.Millisecond))
	g.Expect(p.book("calm", false, now)).To(BeTemporally("<=", now.Add(latest)))
	g.Expect(p.book("crowd", true, now)).To(BeTemporally("<=", now.Add(latest)), "conditions")

	now = now.Add(time.Minute)
	g.Expect(p.book("crowd", false, now)).To(BeTemporally("<=", now.Add(latest)))
	g.Expect(p.next).To(HaveLen(1), "what is over is forgotten")
}

// The namespaces share the rate.
func TestNamespacesShareThePace(t *testing.T) {
	t.Parallel()
	g, now := NewWithT(t), time.Unix(1000, 0)
	p := pacedBy(10 * time.Millisecond)
	var last time.Time
	for range 100 {
		for namespace := range 10 {
			last = p.book(fmt.Sprint(namespace), false, now)
		}
	}
	g.Expect(last).To(BeTemporally("~", now.Add(5*time.Second+lateness), 500*time.Millisecond))
}

// Writes that wait for a webhook slow down nobody.
func TestSlowWritesDoNotCount(t *testing.T) {
	t.Parallel()
	p := pacedBy(10 * time.Millisecond)
	for range 100 {
		p.note(slowWrite)
	}
	NewWithT(t).Expect(p.took).To(BeNumerically("~", 10*time.Millisecond, time.Millisecond))
}
