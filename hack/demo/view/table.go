// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"

	"charm.land/lipgloss/v2"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/cli/live"
)

const (
	// roomyWidth is the minimum width for two spaces between columns. wideWidth is the minimum width for the column
	// with the queues.
	roomyWidth = 90
	wideWidth  = 118
	// maxTrend is the maximum width of the last column.
	maxTrend = 40
)

type column = live.Column[board.Row]

// table draws a header line and a line for each ScaledJob.
func table(rows []board.Row, width int) []string {
	gap := " "
	if width >= roomyWidth {
		gap = "  "
	}
	return live.Table(columnsFor(width, len(gap)), rows, gap)
}

// columnsFor returns the columns for a width. The last one gets the remaining width.
func columnsFor(width, gap int) []column {
	columns := []column{{Title: "SCALEDJOB", Width: 15, Cell: of(live.Name)}}
	if width >= wideWidth {
		columns = append(columns, column{Title: "QUEUE", Width: 18, Cell: queue})
	}
	columns = append(columns,
		column{Title: "DEPTH", Width: 5, Right: true, Cell: of(live.Depth)},
		column{Title: "ACTIVE", Width: 6, Right: true, Cell: of(live.Active)},
		column{Title: "DESIRED", Width: 7, Right: true, Cell: of(live.Desired)},
		column{Title: "MAX", Width: 3, Right: true, Cell: of(live.Limit)},
		column{Title: "MODE", Width: 8, Cell: of(live.Mode)},
		column{Title: "READY", Width: 11, Cell: of(live.Ready)},
		column{Title: "REACTION", Width: 8, Right: true, Cell: reaction},
	)
	left := width
	for _, column := range columns {
		left -= column.Width + gap
	}
	if left > 0 {
		left = min(left, maxTrend)
		columns = append(columns, column{Title: "TREND", Width: left, Cell: trend(left)})
	}
	return columns
}

// of makes a cell of a ScaledJob one of its row.
func of(cell func(*scaledjobv1.ScaledJob) (string, lipgloss.Style)) func(board.Row) (string, lipgloss.Style) {
	return func(row board.Row) (string, lipgloss.Style) { return cell(row.ScaledJob) }
}

// queue omits the prefix that the keys of the demo have in the user's Redis.
func queue(row board.Row) (string, lipgloss.Style) {
	key := row.ScaledJob.Spec.QueueName
	return key[strings.LastIndex(key, ":")+1:], live.Plain
}

func reaction(row board.Row) (string, lipgloss.Style) {
	if row.Reaction == 0 {
		return layout.Unknown, live.Plain
	}
	return Duration(row.Reaction), live.Accent
}

func trend(width int) func(board.Row) (string, lipgloss.Style) {
	return func(row board.Row) (string, lipgloss.Style) { return live.Sparkline(row.History, width), live.Accent }
}
