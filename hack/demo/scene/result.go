// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

// Result is the result of a scene.
type Result struct {
	Name         string
	Messages     int             // pushed
	Due, Created int             // Jobs
	Reactions    []time.Duration // from a push until its first Job was seen, ascending
	Took         time.Duration
	FailedChecks []string
	Polled       bool // at the beginning and at the end
}

// sumUp adds up the numbers of the current scene.
func sumUp(rows []board.Row) Result {
	var sum Result
	for _, row := range rows {
		sum.Messages += row.InScene.Pushed
		sum.Due += row.InScene.Due
		sum.Created += row.InScene.Created
		sum.Reactions = append(sum.Reactions, row.InScene.Reactions...)
	}
	slices.Sort(sum.Reactions)
	return sum
}

// Summary returns a plain-text table of the results.
func Summary(results []Result) string {
	var text strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&text, format+"\n", args...) }
	line("%-10s%9s%10s%9s%14s%14s%9s", "Summary", "messages", "Jobs due", "created", "reaction p50", "reaction max", "took")
	for _, result := range results {
		median, longest := "-", "-"
		if count := len(result.Reactions); count > 0 {
			median, longest = view.Duration(result.Reactions[(count-1)/2]), view.Duration(result.Reactions[count-1])
		}
		line("  %-8s%9d%10d%9d%14s%14s%9s", result.Name, result.Messages, result.Due, result.Created,
			median, longest, view.Duration(result.Took))
		for _, check := range result.FailedChecks {
			line("    FAILED: %s", check)
		}
	}
	line("Reaction: from a push until a watch of the demo's own shows its first Job.")
	if slices.ContainsFunc(results, func(result Result) bool { return result.Polled }) {
		line("It takes seconds while notifications are not verified: the operator polls the queues.")
	}
	return strings.TrimSuffix(text.String(), "\n")
}
