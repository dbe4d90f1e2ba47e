// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The next session may be with another server at the same address.
func TestEvidenceIsThatOfOneSession(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var e Evidence
	e.Told(Setting{Readable: true, Flags: "KA"}, time.Unix(1000, 0))
	e.Heard()
	e.Begin()
	setting, heard := e.get()
	g.Expect(setting).To(BeZero())
	g.Expect(heard).To(BeFalse())
}

func TestOnlyNewEvidenceIsNews(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var e Evidence
	g.Expect(e.Heard()).To(BeTrue())
	g.Expect(e.Heard()).To(BeFalse())
	g.Expect(e.Told(Setting{Readable: true}, time.Unix(1000, 0))).To(BeTrue())
	g.Expect(e.Told(Setting{Readable: true}, time.Unix(1001, 0))).To(BeFalse())
	g.Expect(e.Told(Setting{Readable: true, Flags: "Kl"}, time.Unix(1002, 0))).To(BeTrue())
}

func TestSilentUntil(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	second := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	var e Evidence
	g.Expect(e.SilentUntil(second(0))).To(BeZero())
	e.Told(Setting{Readable: true, Flags: "Kl"}, second(1))
	g.Expect(e.SilentUntil(second(2))).To(BeZero())
	e.Told(Setting{Readable: true}, second(3))
	g.Expect(e.SilentUntil(second(5))).To(Equal(second(5)), "it still is")
	e.Told(Setting{Readable: true, Flags: "Kl"}, second(6))
	g.Expect(e.SilentUntil(second(9))).To(Equal(second(6)), "when it was seen to have changed")
}
