// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import "strings"

// Parameter is the name of the server's setting for keyspace notifications.
const Parameter = "notify-keyspace-events"

// The flags that have a meaning of their own here.
const (
	flagKeyspace = 'K' // publish on __keyspace@<db>__:<key>
	flagGeneric  = 'g' // events of commands on keys of any type, such as DEL and RENAME
	flagAll      = 'A' // all classes except m, n, o and c
)

// knownFlags are all flags up to Redis 8, in the order in which they are shown.
const knownFlags = "KElgshzt$xedAmnoc"

// Flags is a value of notify-keyspace-events. A server may return the flags in another order than they were set.
type Flags string

func (f Flags) has(flag byte) bool { return strings.IndexByte(string(f), flag) >= 0 }

// publish reports whether a server with these flags publishes events of a class.
func (f Flags) publish(class Class) bool {
	return f.has(flagKeyspace) && (f.has(byte(class)) || f.has(flagAll))
}

// WithRecommended returns these flags together with those for the classes, and with g for commands on keys of any type.
// It keeps unknown flags. A server with A does not return n, so n may be lost when the result is set.
func (f Flags) WithRecommended(classes ...Class) Flags {
	union := f.with(flagKeyspace)
	for _, class := range classes {
		union = union.with(byte(class))
	}
	return union.with(flagGeneric)
}

// with returns these flags together with one more.
func (f Flags) with(flag byte) Flags {
	if f.has(flag) || flag != flagKeyspace && f.has(flagAll) {
		return f
	}
	return f + Flags(flag)
}

// Known returns the known flags in a fixed order. Unlike the value itself, it contains no other text of the server, so
// it can be shown in a status.
func (f Flags) Known() Flags {
	return Flags(strings.Map(func(flag rune) rune {
		if f.has(byte(flag)) {
			return flag
		}
		return -1
	}, knownFlags))
}

// Class is a class of commands, named after the type of the keys that they work on. Its value is its flag in
// notify-keyspace-events.
type Class byte

// The classes.
const (
	ClassList      Class = 'l'
	ClassStream    Class = 't'
	ClassSortedSet Class = 'z'
	ClassSet       Class = 's'
	ClassHash      Class = 'h'
)

var allClasses = []Class{ClassList, ClassStream, ClassSortedSet, ClassSet, ClassHash}
