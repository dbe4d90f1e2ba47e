// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

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
	e.SettingRead(Setting{Readable: true, Flags: "KA"}, time.Unix(1000, 0))
	e.Heard(ClassList)
	e.Begin()
	setting, heard := e.of(ClassList)
	g.Expect(setting).To(BeZero())
	g.Expect(heard).To(BeFalse())
}

func TestOnlyNewEvidenceIsNews(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var e Evidence
	g.Expect(e.Heard(ClassList)).To(BeTrue())
	g.Expect(e.Heard(ClassList)).To(BeFalse())
	g.Expect(e.Heard(ClassHash)).To(BeTrue())
	g.Expect(e.Heard(ClassList)).To(BeFalse())
	g.Expect(e.SettingRead(Setting{Readable: true}, time.Unix(1000, 0))).To(BeTrue())
	g.Expect(e.SettingRead(Setting{Readable: true}, time.Unix(1001, 0))).To(BeFalse())
	g.Expect(e.SettingRead(Setting{Readable: true, Flags: "Kl"}, time.Unix(1002, 0))).To(BeTrue())
	g.Expect(e.Heard(ClassSet)).To(BeFalse(), "the setting says it already")
}

func TestSilentUntil(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	second := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	var e Evidence
	g.Expect(e.SilentUntil(ClassList, second(0))).To(BeZero())
	e.SettingRead(Setting{Readable: true, Flags: "Kl"}, second(1))
	g.Expect(e.SilentUntil(ClassList, second(2))).To(BeZero())
	g.Expect(e.SilentUntil(ClassSet, second(2))).To(Equal(second(2)))
	e.SettingRead(Setting{Readable: true, Flags: "Ks"}, second(3))
	g.Expect(e.SilentUntil(ClassList, second(5))).To(Equal(second(5)), "the server is still silent")
	g.Expect(e.SilentUntil(ClassSet, second(5))).To(Equal(second(3)), "the server is not silent any longer")
	e.SettingRead(Setting{Readable: true, Flags: "Kls"}, second(6))
	g.Expect(e.SilentUntil(ClassList, second(9))).To(Equal(second(6)), "the time at which the change was read")
	g.Expect(e.SilentUntil(ClassSet, second(9))).To(Equal(second(3)))
}
