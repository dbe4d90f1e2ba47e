// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// earliest and latest are the bounds of the time after which numbers are written if few have changed.
const earliest, latest = numbersDelay * 3 / 4, numbersDelay * 5 / 4

func TestDelay(t *testing.T) {
	t.Parallel()
	for range 100 {
		NewWithT(t).Expect(delay()).To(And(BeNumerically(">=", earliest), BeNumerically("<=", latest)))
	}
}

// pacedBy returns a pace of writes in these namespaces that take so long.
func pacedBy(took time.Duration, namespaces ...string) *pace {
	var p pace
	for range 100 {
		for _, each := range namespaces {
			p.note(each, took)
		}
	}
	return &p
}

// The more statuses of a namespace change, the later they are written. Another namespace does not wait for them.
func TestNumbersOfANamespaceArePaced(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		p := pacedBy(time.Millisecond, "crowd")
		var last time.Time
		for range 1000 {
			last = p.book("crowd", time.Now())
		}
		g.Expect(last).To(BeTemporally("~", time.Now().Add(5*numbersDelay), 5*numbersDelay/4))
		g.Expect(p.book("calm", time.Now())).To(BeTemporally("<=", time.Now().Add(latest)))
		for range 100_000 {
			last = p.book("crowd", time.Now())
		}
		g.Expect(last).To(BeTemporally("<=", time.Now().Add(longestDelay*5/4)), "never longer")

		time.Sleep(time.Minute)
		g.Expect(p.book("crowd", time.Now())).To(BeTemporally("<=", time.Now().Add(latest)))
		p.book("new", time.Now())
		g.Expect(p.all).NotTo(HaveKey("calm"), "what is over is forgotten")
	})
}

// The namespaces share the rate.
func TestNamespacesShareThePace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var namespaces []string
		for i := range 10 {
			namespaces = append(namespaces, fmt.Sprint(i))
		}
		p := pacedBy(time.Millisecond, namespaces...)
		var last time.Time
		for range 100 {
			for _, each := range namespaces {
				last = p.book(each, time.Now())
			}
		}
		NewWithT(t).Expect(last).To(BeTemporally("~", time.Now().Add(5*numbersDelay), 5*numbersDelay/4))
	})
}

// Writes that wait for a webhook slow down their namespace alone.
func TestSlowWritesCountInTheirNamespace(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		p := pacedBy(10*time.Millisecond, "calm")
		for range 100 {
			p.note("slow", time.Minute)
		}
		g.Expect(p.all["slow"].took).To(BeNumerically("~", slowWrite, time.Millisecond))
		g.Expect(p.all["calm"].took).To(BeNumerically("~", 10*time.Millisecond, time.Millisecond))
	})
}
