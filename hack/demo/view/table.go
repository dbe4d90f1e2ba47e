// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/hack/demo/board"
)

const (
	// unknown is shown for values that are not reported yet.
	unknown = "-"
	// roomyWidth is the minimum width for two spaces between columns. wideWidth is the minimum width for the column
	// with the queues.
	roomyWidth = 90
	wideWidth  = 118
	// maxTrend is the maximum width of the last column.
	maxTrend = 40
)

// column is a column of the table.
type column struct {
	title string
	width int
	right bool // aligned
	cell  func(board.Row) (string, lipgloss.Style)
}

// table draws a header line and a line for each ScaledJob.
func table(rows []board.Row, width int) []string {
	gap := " "
	if width >= roomyWidth {
		gap = "  "
	}
	columns := columnsFor(width, len(gap))
	var titles []string
	for _, column := range columns {
		titles = append(titles, column.align(column.title, faintStyle))
	}
	lines := []string{strings.Join(titles, gap)}
	for _, row := range rows {
		var cells []string
		for _, column := range columns {
			cells = append(cells, column.align(column.cell(row)))
		}
		lines = append(lines, strings.Join(cells, gap))
	}
	return lines
}

// align truncates or pads the text to the width of the column.
func (c column) align(text string, style lipgloss.Style) string {
	text = ansi.Truncate(text, c.width, "…")
	fill := strings.Repeat(" ", c.width-ansi.StringWidth(text))
	if c.right {
		return fill + style.Render(text)
	}
	return style.Render(text) + fill
}

// columnsFor returns the columns for a width. The last one gets the remaining width.
func columnsFor(width, gap int) []column {
	columns := []column{{title: "SCALEDJOB", width: 15, cell: name}}
	if width >= wideWidth {
		columns = append(columns, column{title: "QUEUE", width: 18, cell: queue})
	}
	columns = append(columns,
		column{title: "DEPTH", width: 5, right: true, cell: depth},
		column{title: "ACTIVE", width: 6, right: true, cell: active},
		column{title: "DESIRED", width: 7, right: true, cell: desired},
		column{title: "MAX", width: 3, right: true, cell: limit},
		column{title: "MODE", width: 8, cell: mode},
		column{title: "READY", width: 11, cell: ready},
		column{title: "REACTION", width: 8, right: true, cell: reaction},
	)
	left := width
	for _, column := range columns {
		left -= column.width + gap
	}
	if left > 0 {
		left = min(left, maxTrend)
		columns = append(columns, column{title: "TREND", width: left, cell: trend(left)})
	}
	return columns
}

func name(row board.Row) (string, lipgloss.Style) { return row.ScaledJob.Name, strongStyle }

// queue omits the prefix that the keys of the demo have in the user's Redis.
func queue(row board.Row) (string, lipgloss.Style) {
	key := row.ScaledJob.Spec.QueueName
	return key[strings.LastIndex(key, ":")+1:], plainStyle
}

func depth(row board.Row) (string, lipgloss.Style) {
	depth := row.ScaledJob.Status.QueueDepth
	if depth == nil {
		return unknown, plainStyle
	}
	return strconv.FormatInt(*depth, 10), plainStyle
}

func active(row board.Row) (string, lipgloss.Style) {
	active := row.ScaledJob.Status.ActiveJobs
	if active > 0 {
		return strconv.Itoa(int(active)), strongStyle
	}
	return strconv.Itoa(int(active)), plainStyle
}

func desired(row board.Row) (string, lipgloss.Style) {
	desired := row.ScaledJob.Status.DesiredJobs
	if desired == nil {
		return unknown, plainStyle
	}
	return strconv.Itoa(int(*desired)), plainStyle
}

func limit(row board.Row) (string, lipgloss.Style) {
	return strconv.Itoa(int(row.ScaledJob.Spec.MaxReplicasOrDefault())), plainStyle
}

func mode(row board.Row) (string, lipgloss.Style) {
	switch mode := row.ScaledJob.Status.Mode; mode {
	case "":
		return unknown, plainStyle
	case scaledjobv1.ModeEvents, scaledjobv1.ModeTracking:
		return string(mode), goodStyle
	default:
		return string(mode), warnStyle
	}
}

// ready shows the reason if the ScaledJob is not ready.
func ready(row board.Row) (string, lipgloss.Style) {
	condition := apimeta.FindStatusCondition(row.ScaledJob.Status.Conditions, scaledjobv1.ConditionReady)
	switch {
	case condition == nil:
		return unknown, plainStyle
	case condition.Status == metav1.ConditionTrue:
		return string(condition.Status), goodStyle
	default:
		return condition.Reason, badStyle
	}
}

func reaction(row board.Row) (string, lipgloss.Style) {
	if row.Reaction == 0 {
		return unknown, plainStyle
	}
	return Duration(row.Reaction), accentStyle
}

func trend(width int) func(board.Row) (string, lipgloss.Style) {
	return func(row board.Row) (string, lipgloss.Style) { return sparkline(row.History, width), accentStyle }
}
