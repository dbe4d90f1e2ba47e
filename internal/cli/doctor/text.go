// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/cli/live"
)

// The signs of the levels, on a terminal and elsewhere. All words have the same width.
var (
	signs = map[Level]string{
		OK: live.Good.Render("✓"), Unchecked: live.Faint.Render("–"), Warning: live.Warn.Render("!"), Error: live.Bad.Render("✗"),
	}
	words = map[Level]string{OK: "ok       ", Unchecked: "unchecked", Warning: "warning  ", Error: "error    "}
)

// Text returns the report as text, in lines of at most width columns, except for names that are longer. Without plain,
// colored signs stand for the levels.
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
			text.WriteString(layout.Hanging(layout.Indent+marks[found.Level]+" ", found.Message, width))
			if found.Fix != "" {
				text.WriteString(layout.Hanging(layout.Indent+blank(marks[found.Level])+" ", "Fix: "+found.Fix, width))
			}
		}
	}
	if len(r.OnlyInCluster) > 0 {
		text.WriteString("\nOnly a Pod in the cluster can check\n")
		for _, each := range r.OnlyInCluster {
			text.WriteString(layout.Hanging(layout.Indent+"- ", each, width))
		}
	}
	return text.String() + "\n" + layout.Hanging("", r.summary(), width)
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
