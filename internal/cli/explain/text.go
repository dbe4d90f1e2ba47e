// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strconv"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

const bullet = "- "

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
	w.hanging(layout.Indent, e.Jobs.text())
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
		rows = append(rows, []string{each.Name, depth, each.meaning()})
	}
	if len(rows) > 1 && e.Outstanding != nil {
		rows = append(rows, []string{"outstanding", strconv.FormatInt(*e.Outstanding, 10), ""})
	}
	return rows
}

// meaning says what the messages of the key are.
func (q *Queue) meaning() string {
	switch {
	case q.ConsumerGroup != "" && q.PendingEntries != nil && q.Depth != nil:
		held := q.Holding(*q.Depth)
		return fmt.Sprintf("%d waiting, %d pending in group %s", held.Waiting, held.InProgress, q.ConsumerGroup)
	case q.ConsumerGroup != "":
		return "waiting, or pending in group " + q.ConsumerGroup
	case q.Role == scaledjobv1.RoleInProgress:
		return "in progress"
	case q.Window == scaledjobv1.WindowDue:
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
		w.hanging(layout.Indent+bullet, line)
	}
}

// hanging writes a text whose first line begins with before.
func (w *writer) hanging(before, text string) {
	w.text.WriteString(layout.Hanging(before, text, w.width))
}

func (w *writer) table(rows [][]string) { w.text.WriteString(layout.Table(layout.Indent, rows)) }
