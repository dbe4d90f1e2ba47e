// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
)

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

// strips draws the time from a push to its Job, of the operator and of KEDA, on one axis. It is empty if nothing was
// measured.
func strips(runs []*results.Run) (string, error) {
	rows, err := results.Merge(runs, rivalsAcross)
	var found []strip
	for _, row := range rows {
		contender, work, _ := strings.Cut(row.Work(), ": ")
		switch {
		case contender == results.Loop:
		case work == "push → Job seen, p50":
			found = append(found, strip{contender: contender, p50: row.Ours.Median, label: rivalCell(row)})
		case work == "push → Job seen, p99" && len(found) > 0: // it follows the median
			found[len(found)-1].p99 = row.Ours.Median
		}
	}
	if err != nil || len(found) == 0 {
		return "", err
	}
	return drawStrips(found), nil
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
	if s.contender == operatorLine {
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
