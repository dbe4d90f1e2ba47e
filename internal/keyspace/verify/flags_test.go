// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

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
		"":    {false, "Klg", "Klg"},
		"lK":  {true, "lKg", "Klg"},
		"glK": {true, "glK", "Klg"},
		"AKE": {true, "AKE", "KEA"},
		"A":   {false, "AK", "KA"},
		"E":   {false, "EKlg", "KElg"},
		"xE":  {false, "xEKlg", "KElgx"},
		"Kg":  {false, "Kgl", "Klg"},
		"l":   {false, "lKg", "Klg"},
		// As Redis 7.0 and newer, 8.2 and newer, and 8.8 and newer return them.
		"AKEmn":   {true, "AKEmn", "KEAmn"},
		"AKEmnoc": {true, "AKEmnoc", "KEAmnoc"},
		"KnSTIV":  {false, "KnSTIVlg", "Klgn"},
		"K$z?Z\n": {false, "K$z?Z\nlg", "Klgz$"},
	} {
		t.Run(string(value), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			g.Expect(value.publish(ClassList)).To(Equal(want.publishes))
			g.Expect(value.WithRecommended(ClassList)).To(Equal(want.recommended))
			g.Expect(value.WithRecommended(ClassList).Known()).To(Equal(want.shown))
			g.Expect(value.WithRecommended(ClassList).publish(ClassList)).To(BeTrue())
		})
	}
}

func TestFlagsOfAClassArePublishedOfThatClassOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, set := range allClasses {
		flags := Flags("K") + Flags(set)
		for _, class := range allClasses {
			g.Expect(flags.publish(class)).To(Equal(class == set), "%s, %c", flags, class)
			g.Expect(Flags("KA").publish(class)).To(BeTrue())
			g.Expect(Flags("A").publish(class)).To(BeFalse())
		}
	}
	g.Expect(Flags("xzK").WithRecommended(ClassHash, ClassSortedSet, ClassStream, ClassHash)).To(BeEquivalentTo("xzKhtg"))
	g.Expect(Flags("E").WithRecommended(allClasses...).Known()).To(BeEquivalentTo("KElgshzt"))
	g.Expect(Flags("AE").WithRecommended(allClasses...)).To(BeEquivalentTo("AEK"))
}
