// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestEvidenceOutlastsAShortGapOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gap  time.Duration
		kept bool
	}{
		"short": {gracePeriod - time.Millisecond, true},
		"long":  {gracePeriod, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var e Evidence
			told := Setting{Asked: true, Readable: true, Flags: "KA"}
			begin := time.Unix(1000, 0)
			e.Begin(begin)
			e.Told(told)
			e.Heard()
			e.Lost(begin.Add(time.Hour))
			e.Begin(begin.Add(time.Hour + c.gap))
			setting, heard := e.get()
			g.Expect(heard).To(Equal(c.kept))
			if c.kept {
				g.Expect(setting).To(Equal(told))
			} else {
				g.Expect(setting).To(BeZero(), "the server may be another")
			}
			e.Begin(begin.Add(2 * time.Hour))
			g.Expect(e.Heard()).To(Equal(!c.kept), "a session that begins where none was lost forgets nothing")
		})
	}
}

func TestOnlyNewEvidenceIsNews(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var e Evidence
	g.Expect(e.Heard()).To(BeTrue())
	g.Expect(e.Heard()).To(BeFalse())
	g.Expect(e.ExpectsEvents()).To(BeTrue())
	g.Expect(e.Told(Setting{Asked: true, Readable: true})).To(BeTrue())
	g.Expect(e.Told(Setting{Asked: true, Readable: true})).To(BeFalse())
	g.Expect(e.ExpectsEvents()).To(BeFalse())
	g.Expect(e.Told(Setting{Asked: true, Readable: true, Flags: "Kl"})).To(BeTrue())
	g.Expect(e.ExpectsEvents()).To(BeTrue())
}
