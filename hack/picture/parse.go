// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strconv"
	"strings"
)

// span is text in one style.
type span struct {
	text  string
	style style
}

// style is how a span looks.
type style struct {
	color int // of the palette, or defaultColor
	bold  bool
}

// defaultColor is that of text without a colour.
const defaultColor = -1

// sequence matches what sets the style of all text that follows.
var sequence = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// parse splits text into lines of spans. A style lasts until the next one, be it
// on another line.
func parse(text string) [][]span {
	var lines [][]span
	current := style{color: defaultColor}
	for line := range strings.Lines(text) {
		var spans []span
		spans, current = parseLine(strings.TrimRight(line, "\r\n"), current)
		lines = append(lines, spans)
	}
	return lines
}

// parseLine returns the spans of a line that begins in a style, and the style it
// ends in.
func parseLine(line string, current style) ([]span, style) {
	var spans []span
	begin := 0
	add := func(end int) {
		if end > begin {
			spans = append(spans, span{line[begin:end], current})
		}
	}
	for _, at := range sequence.FindAllStringSubmatchIndex(line, -1) {
		add(at[0])
		for code := range strings.SplitSeq(line[at[2]:at[3]], ";") {
			current = current.apply(code)
		}
		begin = at[1]
	}
	add(len(line))
	return spans, current
}

// apply returns the style after a code. Codes that the demo does not use change
// nothing.
func (s style) apply(code string) style {
	number, err := strconv.Atoi(code)
	switch {
	case err != nil || number == 0: // an empty code means 0
		return style{color: defaultColor}
	case number == 1:
		s.bold = true
	case number == 22:
		s.bold = false
	case number >= 30 && number <= 37:
		s.color = number - 30
	case number == 39:
		s.color = defaultColor
	case number >= 90 && number <= 97:
		s.color = number - 90 + 8
	}
	return s
}
