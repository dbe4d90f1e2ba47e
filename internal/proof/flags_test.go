// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for value, want := range map[Flags]struct {
		publishes   bool
		recommended Flags
		shown       Flags
	}{
		"":        {false, "Klg", "Klg"},
		"lK":      {true, "lKg", "Klg"},
		"glK":     {true, "glK", "Klg"},
		"AKE":     {true, "AKE", "KEA"},
		"A":       {false, "AK", "KA"},
		"E":       {false, "EKlg", "KElg"},
		"xE":      {false, "xEKlg", "KElgx"},
		"Kg":      {false, "Kgl", "Klg"},
		"l":       {false, "lKg", "Klg"},
		"K$z?Z\n": {false, "K$z?Z\nlg", "Klgz$"},
	} {
		t.Run(string(value), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			g.Expect(value.publishLists()).To(Equal(want.publishes))
			g.Expect(value.WithRecommended()).To(Equal(want.recommended))
			g.Expect(value.WithRecommended().Known()).To(Equal(want.shown))
			g.Expect(value.WithRecommended().publishLists()).To(BeTrue())
		})
	}
}
