// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"strings"
	"testing"
)

// FuzzFlags checks that for any setting, the recommended flags publish the wanted classes and lose no flag, and that
// only known flags are shown.
func FuzzFlags(f *testing.F) {
	for i, seed := range []string{"", "KEA", "Klg", "AKE", "K$z?Z\n", "A", "ξK", "\xff"} {
		f.Add(seed, uint8(i))
	}
	f.Fuzz(func(t *testing.T, text string, wanted uint8) {
		flags, class := Flags(text), allClasses[int(wanted)%len(allClasses)]
		recommended := flags.WithRecommended(class)
		switch {
		case !recommended.publish(class):
			t.Errorf("%q does not publish %c", recommended, class)
		case !strings.HasPrefix(string(recommended), text):
			t.Errorf("%q became %q", text, recommended)
		case recommended.WithRecommended(class) != recommended:
			t.Errorf("%q became %q in the end", recommended, recommended.WithRecommended(class))
		case !recommended.has('g') && !recommended.has('A'):
			t.Errorf("%q does not publish what is renamed", recommended)
		}
		known := flags.Known()
		if known.publish(class) != flags.publish(class) {
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
