// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 18.0
	baseline   = 13.5 // from the top of a cell
	fontSize   = 14
	padding    = 16.0
	radius     = 8
)

const (
	background = "#16181d"
	foreground = "#d7dae0"
	// fonts are common monospace fonts; the last one is the default of the system.
	fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
)

// palette has the colors of the codes 30 to 37 and 90 to 97.
var palette = []string{
	"#16181d", "#f0716b", "#7ec77b", "#e6b450", "#6ca8f0", "#c792ea", "#5cc6d0", "#d7dae0",
	"#8a919e", "#f0716b", "#7ec77b", "#e6b450", "#6ca8f0", "#c792ea", "#5cc6d0", "#ffffff",
}

// bars are drawn as rectangles, because fonts leave gaps between them.
const bars = "▁▂▃▄▅▆▇█"

// draw returns an SVG of the lines.
func draw(lines [][]span) string {
	columns := 0
	for _, line := range lines {
		columns = max(columns, width(line))
	}
	right := float64(columns)*cellWidth + 2*padding
	bottom := float64(len(lines))*cellHeight + 2*padding
	var svg strings.Builder
	_, _ = fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n",
		right, bottom, right, bottom)
	_, _ = fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" rx="%d" fill="%s"/>`+"\n", radius, background)
	_, _ = fmt.Fprintf(&svg, `<g font-family="%s" font-size="%d" fill="%s" xml:space="preserve">`+"\n", fonts, fontSize, foreground)
	for i, line := range lines {
		drawLine(&svg, line, padding+float64(i)*cellHeight)
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.String()
}

func width(line []span) int {
	width := 0
	for _, span := range line {
		width += utf8.RuneCountInString(span.text)
	}
	return width
}

func drawLine(svg *strings.Builder, line []span, top float64) {
	left := padding
	for _, span := range line {
		for _, word := range words(span.text) {
			cells := float64(utf8.RuneCountInString(word))
			switch {
			case strings.TrimSpace(word) == "":
			case isBar(word):
				drawBars(svg, word, span.style, left, top)
			default:
				drawText(svg, word, span.style, left, top)
			}
			left += cells * cellWidth
		}
	}
}

// words splits a text at the ends of bars, and at two or more spaces, so that columns are aligned in any font.
func words(text string) []string {
	var words []string
	begin := 0
	runes := []rune(text)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || kind(runes, i) != kind(runes, i-1) {
			words = append(words, string(runes[begin:i]))
			begin = i
		}
	}
	return words
}

// kind distinguishes bars, wide spaces and other text.
func kind(runes []rune, i int) int {
	space := func(i int) bool { return i < 0 || i >= len(runes) || runes[i] == ' ' }
	switch {
	case strings.ContainsRune(bars, runes[i]):
		return 0
	case space(i) && (space(i-1) || space(i+1)):
		return 1
	default:
		return 2
	}
}

func isBar(word string) bool { return strings.Trim(word, bars) == "" }

// drawText stretches the text to its cells, because fonts have different widths.
func drawText(svg *strings.Builder, text string, style style, left, top float64) {
	weight := ""
	if style.bold {
		weight = ` font-weight="bold"`
	}
	_, _ = fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s%s>%s</text>`+"\n",
		left, top+baseline, float64(utf8.RuneCountInString(text))*cellWidth, fill(style), weight, html.EscapeString(text))
}

func drawBars(svg *strings.Builder, text string, style style, left, top float64) {
	for i, bar := range []rune(text) {
		eighths := strings.Index(bars, string(bar))/len("█") + 1
		height := float64(eighths) * (cellHeight - 2) / 8
		_, _ = fmt.Fprintf(svg, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f"%s/>`+"\n",
			left+float64(i)*cellWidth, top+cellHeight-2-height, cellWidth-1, height, fill(style))
	}
}

func fill(style style) string {
	if style.color == defaultColor {
		return ""
	}
	return ` fill="` + palette[style.color] + `"`
}
