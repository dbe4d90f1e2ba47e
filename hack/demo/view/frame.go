// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package view draws the board: as a screen that is updated in place, or as plain lines. Each view depends only on a
// Snapshot.
package view

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/internal/cli/live"
)

const (
	title  = "scaledjob-operator"
	footer = "q quit"
	// margin is the number of free columns on each side.
	margin = 1
)

// frame draws the whole screen, with at most height lines of at most width columns.
func frame(snapshot board.Snapshot, width, height int) string {
	inner := max(width-2*margin, 1)
	lines := []string{header(snapshot, inner), ""}
	lines = append(lines, heading(snapshot, inner)...)
	lines = append(lines, "")
	lines = append(lines, table(snapshot.Rows, inner)...)
	lines = append(lines, "")
	bottom := []string{"", live.Faint.Render(footer)}
	free := max(height-len(lines)-len(bottom), 0)
	lines = append(lines, newest(snapshot.Log, inner, free)...)
	for len(lines) < height-len(bottom) {
		lines = append(lines, "")
	}
	lines = append(lines, bottom...)
	return layOut(lines[:min(len(lines), height)], inner)
}

// layOut adds the margin and truncates lines that are too wide.
func layOut(lines []string, inner int) string {
	var text strings.Builder
	for i, line := range lines {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(strings.Repeat(" ", margin) + ansi.Truncate(line, inner, "…"))
	}
	return text.String()
}

// header has the Redis in use on its right side.
func header(snapshot board.Snapshot, width int) string {
	redis := "Redis: " + snapshot.Redis
	fill := max(width-len(title)-ansi.StringWidth(redis), 2)
	return live.Strong.Render(title) + strings.Repeat(" ", fill) + live.Faint.Render(redis)
}

// heading shows the scene and its story.
func heading(snapshot board.Snapshot, width int) []string {
	playing := snapshot.Playing
	if playing.Number == 0 {
		return []string{live.Title.Render("Ready"), ""}
	}
	return append([]string{live.Title.Render(playing.String())}, script.Wrap(playing.Story, width)...)
}

// newest draws the newest entries in at most count lines, the oldest first. It leaves out stories, which the heading
// shows.
func newest(log []board.Entry, width, count int) []string {
	var lines []string
	for _, entry := range log {
		if entry.Kind == board.Told {
			continue
		}
		mark, style := sign(entry.Kind)
		at := fmt.Sprintf("%6.1f s  ", entry.After.Seconds())
		for i, text := range script.Wrap(entry.Text, width-len(at)-2) {
			if i > 0 {
				at, mark = strings.Repeat(" ", len(at)), " "
			}
			lines = append(lines, live.Faint.Render(at)+style.Render(mark+" "+text))
		}
	}
	return lines[max(0, len(lines)-count):]
}

// sign returns the mark before an entry, and the style of both.
func sign(kind board.Kind) (mark string, style lipgloss.Style) {
	switch kind {
	case board.Begun:
		return "▶", live.Title
	case board.Seen:
		return "◂", live.Warn
	case board.Passed:
		return "✓", live.Good
	case board.Failed:
		return "✗", live.Bad
	default:
		return "▸", live.Plain
	}
}
