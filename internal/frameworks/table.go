// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package frameworks

import (
	"fmt"
	"strconv"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Table returns the table of the frameworks in Markdown, for a queue named Q.
func Table(all []Framework) string {
	var rows strings.Builder
	rows.WriteString("| framework | `--framework` | entries of `queues` | the number of Jobs is |\n|---|---|---|---|\n")
	for i := range all {
		f := &all[i]
		number := strings.Join(append([]string{f.Number + "."}, f.Notes...), " ")
		fmt.Fprintf(&rows, "| %s | `%s` | %s | %s |\n", f.Name, f.ID, f.entries(), strings.TrimSuffix(f.about(number), "."))
	}
	return rows.String()
}

// about returns a text for the queue that the table shows.
func (f *Framework) about(text string) string {
	queue := f.DefaultQueue
	if queue == "" {
		queue = "Q"
	}
	return strings.ReplaceAll(text, placeholder, queue)
}

// entries are the keys in the short form of the table.
func (f *Framework) entries() string {
	var entries []string
	condition := ""
	for i := range f.Keys {
		key := &f.Keys[i]
		text := f.entry(key)
		if key.Condition != condition {
			text = strings.TrimSpace(key.Condition + " " + text)
		}
		condition = key.Condition
		entries = append(entries, text)
	}
	text := strings.Join(entries, "; ")
	if f.Strategy != "" {
		text += "; " + string(f.Strategy)
	}
	return text
}

func (f *Framework) entry(key *Key) string {
	name := f.about(key.Name)
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted // YAML needs it so.
	}
	words := []string{"`" + name + "`"}
	switch {
	case key.Role == scaledjobv1.RoleInProgress:
		words = append([]string{"P"}, words...)
	case key.ConsumerGroup == "":
		words = append([]string{"W"}, words...)
	}
	switch {
	case key.ConsumerGroup != "":
		words = append(words, "Stream, `consumerGroup: "+key.ConsumerGroup+"`")
	case key.Window != "":
		words = append(words, string(key.Window), "`"+string(key.ScoreUnit)+"`")
	case key.Type != "":
		words = append(words, string(key.Type))
	}
	return strings.Join(words, " ")
}
