// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/hack/demo/scene"
	"miracle.dev/scaledjob-operator/hack/demo/words"
)

// Summary says in plain text what came of the scenes that were played.
func Summary(results []scene.Result) string {
	var text strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&text, format+"\n", args...) }
	line("%-10s%9s%10s%9s%14s%14s%9s", "Summary", "messages", "Jobs due", "created", "reaction p50", "reaction max", "took")
	for _, result := range results {
		if result.LeftOut != "" {
			line("  %-8s left out: %s", result.Name, result.LeftOut)
			continue
		}
		line("  %-8s%9d%10d%9d%14s%14s%9s", result.Name, result.Messages, result.Due, result.Created,
			reactionAt(result.Reactions, 50), reactionAt(result.Reactions, 100), words.Duration(result.Took))
		for _, check := range result.FailedChecks {
			line("    NOT KEPT: %s", check)
		}
	}
	line("Reaction: from a push until a watch of the demo's own shows its first Job.")
	return strings.TrimSuffix(text.String(), "\n")
}

// reactionAt returns a percentile of ascending durations in words.
func reactionAt(ascending []time.Duration, percent int) string {
	if len(ascending) == 0 {
		return unknown
	}
	return words.Duration(percentile(ascending, percent))
}

// percentile returns the smallest of ascending durations that p percent of them do not exceed.
func percentile(ascending []time.Duration, p int) time.Duration {
	rank := (len(ascending)*p + 99) / 100
	return ascending[max(rank, 1)-1]
}
