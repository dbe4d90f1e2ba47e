// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import "strings"

// Parameter is the server's setting that says which events it publishes.
const Parameter = "notify-keyspace-events"

// The flags that matter here.
const (
	flagKeyspace = 'K' // publish on __keyspace@<db>__:<key>
	flagAll      = 'A' // stands for all classes but m, n, o and c
	flagList     = 'l' // publish commands on lists
)

// knownFlags are all flags of Redis up to 8, in the order in which they are shown.
const knownFlags = "KElgshzt$xedAmnoc"

// recommendedFlags are what lists need, and those by which lists appear as a whole.
const recommendedFlags = "Klg"

// Flags is a value of notify-keyspace-events. The server may print a value in another
// order than it was set.
type Flags string

func (f Flags) has(flag byte) bool { return strings.IndexByte(string(f), flag) >= 0 }

// publishLists reports whether a server with these flags publishes what lists need.
func (f Flags) publishLists() bool {
	return f.has(flagKeyspace) && (f.has(flagList) || f.has(flagAll))
}

// WithRecommended returns these flags and the recommended ones. It keeps what it does
// not know. A server that has A set does not print n, so n may be lost where the result
// is set.
func (f Flags) WithRecommended() Flags {
	union := f
	for _, flag := range []byte(recommendedFlags) {
		if !union.has(flag) && (flag == flagKeyspace || !union.has(flagAll)) {
			union += Flags(flag)
		}
	}
	return union
}

// Known returns the known ones of the flags in a fixed order. Unlike the value itself it
// can be shown wherever it has come from.
func (f Flags) Known() Flags {
	return Flags(strings.Map(func(flag rune) rune {
		if f.has(byte(flag)) {
			return flag
		}
		return -1
	}, knownFlags))
}
