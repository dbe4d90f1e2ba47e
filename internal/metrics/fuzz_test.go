// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzQueueLabel shows that the label of every key is short, printable and unique.
func FuzzQueueLabel(f *testing.F) {
	f.Add("emails", "emails ")
	f.Add(`a"b\c`, `a\"b\\c`)
	f.Add("\xff\x00", `\xff\x00`)
	f.Add(strings.Repeat("é", 600), strings.Repeat("é", 599)+"e")
	f.Add(strings.Repeat("x", 128), strings.Repeat("x", 129))
	f.Fuzz(func(t *testing.T, key, other string) {
		label := queueLabel(key)
		switch {
		case len(label) > maxQueueLabel:
			t.Errorf("%q is %d bytes long", label, len(label))
		case !utf8.ValidString(label):
			t.Errorf("%q is not valid UTF-8", label)
		case strings.ContainsFunc(label, func(c rune) bool { return !unicode.IsPrint(c) }):
			t.Errorf("%q is not printable", label)
		case key != other && label == queueLabel(other):
			t.Errorf("%q and %q have the same label %q", key, other, label)
		}
	})
}
