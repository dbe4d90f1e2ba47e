// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package verify

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
