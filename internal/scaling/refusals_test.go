// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRefusalsPause(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var r Refusals
	now := start
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		r.Refused(now)
		r.Refused(now)
		g.Expect(r.Until(now).Sub(now)).To(Equal(pause))
		now = now.Add(pause)
		g.Expect(r.Until(now)).To(BeZero())
		g.Expect(r.Recent(now)).To(BeTrue())
	}
	r.Accepted()
	g.Expect(r.Recent(now)).To(BeFalse())
	r.Refused(now)
	g.Expect(r.Until(now).Sub(now)).To(Equal(10 * time.Second))
	now = now.Add(FirstPause + 10*time.Minute)
	g.Expect(r.Recent(now)).To(BeFalse(), "it is long ago")
	r.Refused(now)
	g.Expect(r.Until(now).Sub(now)).To(Equal(10 * time.Second))
}

// A deleted Job may have made room in a quota. A failed attempt does not extend the pause.
func TestRoomIsAnOpportunityAfterARefusal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var r Refusals
	r.Refused(start)
	for range 3 {
		r.MadeRoom()
		g.Expect(r.Until(start)).To(BeZero())
		r.Refused(start)
	}
	g.Expect(r.Until(start).Sub(start)).To(Equal(10 * time.Second))
}
