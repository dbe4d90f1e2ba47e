// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package script says which scenes the demo has, and which of them a command line chooses. It imports little, so that
// a mistake in the command line is found before the demo is compiled.
package script

import (
	"strings"
	"unicode/utf8"
)

// LineWidth is the width of all lines outside the live view.
const LineWidth = 80

// Scene is one scene of the demo.
type Scene struct {
	Name string
	// Story says what happens and why that matters.
	Story string
	// Harm is what the scene does to Redis, so that it is not played on the user's; empty if it can be.
	Harm string
}

// All returns all scenes, in order.
func All() []Scene {
	return []Scene{
		{
			Name:  "burst",
			Story: "Hundreds of messages arrive at once: the Jobs that are due appear within milliseconds, never more than max at a time.",
		},
		{
			Name:  "trickle",
			Story: "Single messages arrive now and then: each gets its Job within milliseconds, where polling would take seconds.",
		},
		{
			Name:  "flags",
			Story: "Redis stops announcing changes: the operator has Redis track the keys instead, and Jobs still follow within milliseconds.",
			Harm:  "configures Redis",
		},
		{
			Name:  "redis",
			Story: "Redis dies and comes back: an unreachable Redis is no empty queue, so no Job is killed, and work goes on by itself.",
			Harm:  "kills Redis",
		},
		{
			Name:  "operator",
			Story: "The operator is killed in the middle of a burst and started again: there are as many Jobs as are due, none twice.",
		},
	}
}

// Wrap breaks a text into lines of at most width characters. A longer word gets a line of its own.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
