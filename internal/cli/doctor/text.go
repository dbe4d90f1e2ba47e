// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The signs of the levels, on a terminal and elsewhere. All words have the same width.
var (
	signs = map[Level]string{OK: "✓", Unchecked: "–", Warning: "!", Error: "✗"}
	words = map[Level]string{OK: "ok       ", Unchecked: "unchecked", Warning: "warning  ", Error: "error    "}
)

const (
	indent = "  "
	// leastWidth is the least number of columns of a text.
	leastWidth = 10
)

// Text returns the report as text, in lines of at most width columns, except for names that are longer. Without plain, signs
// stand for the levels.
func (r *Report) Text(width int, plain bool) string {
	var text strings.Builder
	marks := signs
	if plain {
		marks = words
	}
	subject := ""
	for _, each := range r.Checks {
		if each.Subject != subject {
			if subject != "" {
				text.WriteString("\n")
			}
			subject = each.Subject
			text.WriteString(r.title(subject) + "\n")
		}
		for _, found := range each.Findings {
			text.WriteString(hanging(indent+marks[found.Level]+" ", found.Message, width))
			if found.Fix != "" {
				text.WriteString(hanging(indent+blank(marks[found.Level])+" ", "Fix: "+found.Fix, width))
			}
		}
	}
	if len(r.OnlyInCluster) > 0 {
		text.WriteString("\nOnly a Pod in the cluster can check\n")
		for _, each := range r.OnlyInCluster {
			text.WriteString(hanging(indent+"- ", each, width))
		}
	}
	return text.String() + "\n" + r.summary() + "\n"
}

func (r *Report) title(subject string) string {
	if subject != scaledJob {
		return subject
	}
	return fmt.Sprintf("%s %s/%s", subject, r.Namespace, r.Name)
}

// summary says how much was found.
func (r *Report) summary() string {
	count := map[Level]int{}
	for _, each := range r.Checks {
		for _, found := range each.Findings {
			count[found.Level]++
		}
	}
	text := "Nothing is wrong"
	if r.Found() {
		text = fmt.Sprintf("Errors: %d. Warnings: %d", count[Error], count[Warning])
	}
	if count[Unchecked] > 0 {
		return fmt.Sprintf("%s. Not checked: %d.", text, count[Unchecked])
	}
	return text + "."
}

func blank(text string) string { return strings.Repeat(" ", ansi.StringWidth(text)) }

// hanging returns a text whose first line begins with before, and the others with as many spaces. It is only broken between
// words, so that commands can be copied.
func hanging(before, text string, width int) string {
	indented := ansi.StringWidth(before)
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && ansi.StringWidth(lines[last]+" "+word) <= max(width-indented, leastWidth) {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return before + strings.Join(lines, "\n"+strings.Repeat(" ", indented)) + "\n"
}
