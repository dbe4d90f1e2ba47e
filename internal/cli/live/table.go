// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table whose rows are of type R.
type Column[R any] struct {
	Title string
	Width int
	// Right is true if the column is aligned at the right.
	Right bool
	// Cell returns the text of a cell. What is longer than the width is cut.
	Cell func(R) (string, lipgloss.Style)
}

// Table draws a header line and a line for each row. gap is between two columns.
func Table[R any](columns []Column[R], rows []R, gap string) []string {
	titles := make([]string, len(columns))
	for i, column := range columns {
		titles[i] = column.align(column.Title, Faint)
	}
	lines := []string{strings.Join(titles, gap)}
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = column.align(column.Cell(row))
		}
		lines = append(lines, strings.Join(cells, gap))
	}
	return lines
}

// align truncates or pads the text to the width of the column.
func (c Column[R]) align(text string, style lipgloss.Style) string {
	text = ansi.Truncate(text, c.Width, "…")
	fill := strings.Repeat(" ", max(0, c.Width-ansi.StringWidth(text)))
	if c.Right {
		return fill + style.Render(text)
	}
	return style.Render(text) + fill
}
