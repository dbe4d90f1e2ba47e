// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

// rivalLine is a line of the table that compares the operator with KEDA. A page may choose some by their names.
type rivalLine struct {
	name, work string
	// title is the work in the words of users.
	title string
}

const (
	workP50     = "push → Job seen, p50"
	workP99     = "push → Job seen, p99"
	workSurplus = "300 queues get a message each within 1s, Jobs too many"
)

var rivalLines = []rivalLine{
	{"p50", workP50, "push → Job, median"},
	{"p99", workP99, "push → Job, 99 %"},
	{"burst", "burst of 1000", "1,000 messages at once"},
	{"fanout50", "300 queues get a message each within 1s, p50", "300 queues get a message each, median"},
	{"fanout99", "300 queues get a message each within 1s, p99", "300 queues get a message each, 99 %"},
	{"surplus", workSurplus, "300 queues get a message each, surplus Jobs in the worst run"},
	{"limit", "300 messages, 10 Jobs at once, until all are processed", "300 messages for 10 Jobs at a time, until all are processed"},
	{"cpu", "20000 pushes/s to a queue at its limit, 30s, CPU", "CPU for 20,000 pushes per second to a queue at `maxReplicas`"},
}

// rivals calls do with each row of the operator and of KEDA. Users have no minimal loop.
func rivals(runs []*results.Run, do func(contender, work string, row *results.Row)) error {
	rows, err := results.Merge(runs, "keda")
	for _, row := range rows {
		if contender, work, _ := strings.Cut(row.First.Work, ": "); contender != results.Loop {
			do(contender, work, row)
		}
	}
	return err
}

// rivalsTable compares the operator with KEDA.
func rivalsTable(runs []*results.Run, names []string) (string, error) {
	cells, drawn := [][]string{{""}}, 0
	for _, line := range rivalLines {
		if len(names) > 0 && !slices.Contains(names, line.name) {
			continue
		}
		drawn++
		err := rivals(runs, func(contender, work string, row *results.Row) {
			if work == line.work {
				results.Set(&cells, line.title, contender, rivalCell(work, row))
			}
		})
		if err != nil {
			return "", err
		}
	}
	if lines := len(cells) - 1; lines != drawn || len(names) > drawn {
		return "", fmt.Errorf("there are figures for %d lines only", lines)
	}
	return results.Markdown(cells), nil
}

// rivalCell is the median, in seconds if it is that long. The number of surplus Jobs is that of the worst round.
func rivalCell(work string, row *results.Row) string {
	const second = 1000
	unit, value := row.First.Unit, row.Ours.Median
	switch {
	case work == workSurplus:
		return results.Number(row.Ours.Most)
	case unit == "ms" && value >= second:
		return results.WithUnit(value/second, "s")
	default:
		return results.WithUnit(value, unit)
	}
}

// Sizes in pixels.
const (
	stripsWidth = 820
	stripLeft   = 230 // where the axis begins
	stripRight  = 770
	stripTop    = 62
	stripHeight = 34
	stripAxis   = 36 // the room for the axis
)

// The axis goes from a millisecond to half a minute.
const (
	shortest = 1.0
	longest  = 30_000.0
)

// stripTicks are those of the axis, in milliseconds.
var stripTicks = []struct {
	at   float64
	name string
}{{1, "1 ms"}, {10, "10 ms"}, {100, "100 ms"}, {1000, "1 s"}, {10_000, "10 s"}, {30_000, "30 s"}}

// strip is the time from a push to its Job with one contender: the median and the 99th percentile, in milliseconds.
type strip struct {
	contender string
	p50, p99  float64
	label     string
}

// strips draws the time from a push to its Job, of the operator and of KEDA, on one axis.
func strips(runs []*results.Run) (string, error) {
	var found []strip
	err := rivals(runs, func(contender, work string, row *results.Row) {
		switch work {
		case workP50:
			found = append(found, strip{contender: contender, p50: row.Ours.Median, label: rivalCell(work, row)})
		case workP99: // it follows the median
			found[len(found)-1].p99 = row.Ours.Median
		}
	})
	return drawStrips(found), err
}

func drawStrips(found []strip) string {
	bottom := stripTop + stripHeight*len(found)
	var svg strings.Builder
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(&svg, format+"\n", args...) }
	write(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="14" fill="#1f2328">`,
		stripsWidth, bottom+stripAxis)
	write(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="#ffffff" stroke="#d0d7de"/>`, stripsWidth-1, bottom+stripAxis-1)
	write(`<text x="20" y="30" font-size="16" font-weight="bold">Time from a push to its Job: median, and up to 99 %% of the messages</text>`)
	for _, tick := range stripTicks {
		write(`<line x1="%[1]s" x2="%[1]s" y1="%[2]d" y2="%[3]d" stroke="#d0d7de"/>`, place(tick.at), stripTop-8, bottom)
		write(`<text x="%s" y="%d" text-anchor="middle" font-size="12" fill="#59636e">%s</text>`, place(tick.at), bottom+20, tick.name)
	}
	for i, each := range found {
		drawStrip(write, each, stripTop+stripHeight*i+stripHeight/2)
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

func drawStrip(write func(format string, args ...any), s strip, middle int) {
	color, weight, name := "#d55e00", "normal", s.contender
	if s.contender == operatorName {
		color, weight, name = "#0072b2", "bold", "this operator"
	}
	write(`<text x="%d" y="%d" text-anchor="end" font-weight="%s">%s</text>`, stripLeft-16, middle+5, weight, html.EscapeString(name))
	write(`<line x1="%s" x2="%s" y1="%d" y2="%d" stroke="%s" stroke-width="8" stroke-opacity="0.4"/>`, place(s.p50), place(s.p99), middle, middle, color)
	write(`<circle cx="%s" cy="%d" r="6" fill="%s"/>`, place(s.p50), middle, color)
	write(`<text x="%s" y="%d" text-anchor="middle" font-size="12" font-weight="bold" fill="%s">%s</text>`, place(s.p50), middle-10, color, html.EscapeString(s.label))
}

// place is where a time is on the axis.
func place(milliseconds float64) string {
	share := math.Log(milliseconds/shortest) / math.Log(longest/shortest)
	return fmt.Sprintf("%.1f", stripLeft+share*(stripRight-stripLeft))
}
