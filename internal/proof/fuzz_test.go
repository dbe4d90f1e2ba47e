// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"strings"
	"testing"
)

// FuzzFlags shows that whatever a server says of its flags, what it is asked to set publishes lists and loses nothing, and what is shown
// is made of known letters.
func FuzzFlags(f *testing.F) {
	for _, seed := range []string{"", "KEA", "Klg", "AKE", "K$z?Z\n", "A", "ξK", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		flags := Flags(text)
		recommended := flags.WithRecommended()
		switch {
		case !recommended.publishLists():
			t.Errorf("%q does not publish lists", recommended)
		case !strings.HasPrefix(string(recommended), text):
			t.Errorf("%q became %q", text, recommended)
		case recommended.WithRecommended() != recommended:
			t.Errorf("%q became %q in the end", recommended, recommended.WithRecommended())
		case flags.publishLists() && !recommended.has('g') && !recommended.has('A'):
			t.Errorf("%q does not publish renamed lists", recommended)
		}
		known := flags.Known()
		if known.publishLists() != flags.publishLists() {
			t.Errorf("%q is shown as %q", text, known)
		}
		at := -1
		for _, flag := range known {
			next := strings.IndexRune(knownFlags, flag)
			if next <= at {
				t.Fatalf("%q is shown as %q", text, known)
			}
			at = next
		}
	})
}
