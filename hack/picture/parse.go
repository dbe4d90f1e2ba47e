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

// style is the style of a span.
type style struct {
	color int // index in palette, or defaultColor
	bold  bool
}

// defaultColor is the color of text without a color code.
const defaultColor = -1

// sequence matches the escape sequences that set the style of the following text.
var sequence = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// parse splits text into lines of spans. A style stays in effect until the next one, even on other lines.
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

// parseLine returns the spans of a line that begins in the style current, and the style at its end.
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

// apply returns the style after a code. It ignores codes that the demo does not use.
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
