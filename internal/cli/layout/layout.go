// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package layout lays out what the commands print: in lines of a width, in tables, and without what a terminal would
// not show but carry out. Keys, conditions, and what Pods and servers say may hold anything.
package layout

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

const (
	// Unknown is shown for values that are not known.
	Unknown = "–"
	// Indent is before each line of a section.
	Indent = "  "
	// padding is the number of spaces between two columns, and leastWidth the least number of columns of a text.
	padding    = 3
	leastWidth = 8
)

// Printable replaces what a terminal would not show but carry out. Line ends stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// OneLine returns a text on one line.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Shorten returns a text on one line, cut after at most so many bytes.
func Shorten(text string, most int) string {
	text = OneLine(strings.ToValidUTF8(text, "?"))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Hanging returns a text in lines of at most width columns, except for longer words. The first line begins with before,
// and the others with as many spaces. It is only broken between words, so that commands can be copied.
func Hanging(before, text string, width int) string {
	indented := ansi.StringWidth(before)
	var lines []string
	for word := range strings.FieldsSeq(Printable(text)) {
		last := len(lines) - 1
		if last >= 0 && ansi.StringWidth(lines[last]+" "+word) <= max(width-indented, leastWidth) {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return before + strings.Join(lines, "\n"+strings.Repeat(" ", indented)) + "\n"
}

// Table returns rows with aligned columns. Each line begins with before.
func Table(before string, rows [][]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, padding, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = strings.ReplaceAll(Printable(row[i]), "\n", "?")
		}
		fmt.Fprintln(table, before+strings.Join(cells, "\t"))
	}
	_ = table.Flush() // A strings.Builder takes everything.
	return text.String()
}
