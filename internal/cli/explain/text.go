// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/charmbracelet/x/ansi"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	indent = "  "
	bullet = "- "
	// padding is the number of spaces between two columns, and leastWidth the least number of columns of a line.
	padding    = 3
	leastWidth = 10
)

// Text returns the explanation as text, in lines of at most width columns, except for names that are longer.
func (e *Explanation) Text(width int) string {
	w := &writer{width: width}
	w.hanging("", fmt.Sprintf("%s/%s: %s", e.Namespace, e.Name, e.Summary))
	if e.Live {
		w.section("Messages, read from Redis now")
	} else {
		w.section("Messages")
	}
	w.table(e.messageRows())
	w.section("Jobs")
	w.hanging(indent, e.Jobs.text())
	w.list(e.Jobs.waitingLines())
	w.part("What is due", e.Arithmetic)
	w.part("Why", e.Why)
	w.part("What would change it", e.Changes)
	w.part("When the operator looks next", e.Next)
	w.part("What could not be read", e.Unreadable)
	return w.text.String()
}

// messageRows are the keys with their messages.
func (e *Explanation) messageRows() [][]string {
	var rows [][]string
	for _, each := range e.Messages {
		depth := "not known"
		if each.Depth != nil {
			depth = strconv.FormatInt(*each.Depth, 10)
		}
		rows = append(rows, []string{strings.ToValidUTF8(each.Key, "?"), depth, each.meaning()})
	}
	if len(rows) > 1 && e.Outstanding != nil {
		rows = append(rows, []string{"outstanding", strconv.FormatInt(*e.Outstanding, 10), ""})
	}
	return rows
}

// meaning says what the messages of the key are.
func (m *Messages) meaning() string {
	switch {
	case m.ConsumerGroup != "":
		return "waiting, or pending in group " + m.ConsumerGroup
	case m.Role == scaledjobv1.RoleInProgress:
		return "in progress"
	case m.Window == scaledjobv1.WindowDue:
		return "waiting, and due"
	}
	return "waiting"
}

// text is a sentence with the Jobs by state.
func (j *Jobs) text() string {
	text := fmt.Sprintf("%d active: %d with a ready Pod, %d pending", j.Active, j.Ready, j.Pending)
	if j.Suspended > 0 {
		text += fmt.Sprintf(" (%d of them suspended)", j.Suspended)
	}
	if j.Terminating > 0 {
		text += fmt.Sprintf(", %d being deleted", j.Terminating)
	}
	text += fmt.Sprintf("; finished: %d succeeded, %d failed", j.Succeeded, j.Failed)
	if j.Source == sourceStatus {
		text += " (from the status)"
	}
	return text
}

func (j *Jobs) waitingLines() []string {
	var lines []string
	for _, each := range j.Waiting {
		line := each.Reason
		if each.Jobs > 0 {
			line = fmt.Sprintf("%s: %s", plural(int64(each.Jobs), "Job"), each.Reason)
		}
		if each.Message != "" {
			line += ": " + each.Message
		}
		lines = append(lines, line)
	}
	return lines
}

// writer writes text of a bounded width.
type writer struct {
	width int
	text  strings.Builder
}

func (w *writer) section(title string) { w.text.WriteString("\n" + title + "\n") }

// part writes a section with a list, unless the list is empty.
func (w *writer) part(title string, lines []string) {
	if len(lines) > 0 {
		w.section(title)
		w.list(lines)
	}
}

func (w *writer) list(lines []string) {
	for _, line := range lines {
		w.hanging(indent+bullet, line)
	}
}

// hanging writes a text whose first line begins with before, and the others with as many spaces.
func (w *writer) hanging(before, text string) {
	lines := ansi.Wordwrap(text, max(w.width-len(before), leastWidth), "")
	w.text.WriteString(before + strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", len(before))) + "\n")
}

func (w *writer) table(rows [][]string) {
	table := tabwriter.NewWriter(&w.text, 0, 0, padding, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, indent+strings.Join(row, "\t"))
	}
	_ = table.Flush() // A strings.Builder takes everything.
}
