// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import "strings"

// Parameter is the server's setting that says which events it publishes.
const Parameter = "notify-keyspace-events"

// The flags that matter here.
const (
	flagKeyspace = 'K' // publish on __keyspace@<db>__:<key>
	flagGeneric  = 'g' // publish commands on keys of any type, as DEL and RENAME
	flagAll      = 'A' // stands for all classes but m, n, o and c
)

// knownFlags are all flags of Redis up to 8, in the order in which they are shown.
const knownFlags = "KElgshzt$xedAmnoc"

// Flags is a value of notify-keyspace-events. The server may print a value in another
// order than it was set.
type Flags string

func (f Flags) has(flag byte) bool { return strings.IndexByte(string(f), flag) >= 0 }

// publish reports whether a server with these flags publishes commands of a class.
func (f Flags) publish(class Class) bool {
	return f.has(flagKeyspace) && (f.has(byte(class)) || f.has(flagAll))
}

// WithRecommended returns these flags and what keys of some classes need, and that by which
// keys appear as a whole. It keeps what it does not know. A server that has A set does not
// print n, so n may be lost where the result is set.
func (f Flags) WithRecommended(classes ...Class) Flags {
	union := f.with(flagKeyspace)
	for _, class := range classes {
		union = union.with(byte(class))
	}
	return union.with(flagGeneric)
}

// with returns these flags and one that they may lack.
func (f Flags) with(flag byte) Flags {
	if f.has(flag) || flag != flagKeyspace && f.has(flagAll) {
		return f
	}
	return f + Flags(flag)
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
