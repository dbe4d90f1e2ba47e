// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/svg"
)

// rivalLine is a line of the table that compares the operator with KEDA, in the words of users.
type rivalLine struct {
	name, title string
	// work is that of the figures, without the name of the contender.
	work *regexp.Regexp
}

// rivalLines are all that the table can have. A page may choose some by their names.
var rivalLines = []rivalLine{
	{"p50", "push → Job, median", regexp.MustCompile(`^push → Job seen, p50$`)},
	{"p99", "push → Job, 99 %", regexp.MustCompile(`^push → Job seen, p99$`)},
	{"burst", "1,000 messages at once", regexp.MustCompile(`^burst of 1000$`)},
	{"fanout50", "300 queues get a message each, median", regexp.MustCompile(`^300 queues get .*, p50$`)},
	{"fanout99", "300 queues get a message each, 99 %", regexp.MustCompile(`^300 queues get .*, p99$`)},
	{"surplus", "300 queues get a message each, most surplus Jobs", regexp.MustCompile(`^300 queues get .*, Jobs too many$`)},
	{"limit", "300 messages for 10 Jobs at a time, until all are processed", regexp.MustCompile(`^300 messages, .* processed$`)},
	{"cpu", "CPU for 20,000 pushes per second to a queue at its limit", regexp.MustCompile(`^20000 pushes/s .*, CPU$`)},
}

// surplusUnit has none: the number of surplus Jobs is that of the worst round, and not of the median.
const surplusUnit = ""

// rivalsTable compares the operator with KEDA. The minimal loop, which no user has, is left out. It is empty if nothing was
// measured.
func rivalsTable(names []string, runs []*results.Run) (string, error) {
	rows, err := results.Merge(runs, rivalsAcross)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	cells := [][]string{{""}}
	for _, line := range rivalLines {
		if len(names) > 0 && !slices.Contains(names, line.name) {
			continue
		}
		for _, row := range rows {
			contender, work, _ := strings.Cut(row.Work(), ": ")
			if contender != results.Loop && line.work.MatchString(work) {
				set(&cells, line.title, contender, rivalCell(row))
			}
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(rivalLines, func(line rivalLine) bool { return line.name == name }) {
			return "", fmt.Errorf("there is no line %q", name)
		}
	}
	return markdown(cells), nil
}

// rivalCell is the median, in seconds if it is that long.
func rivalCell(row *results.Row) string {
	const second = 1000
	unit, value := row.Figures[0].Unit, row.Ours.Median
	switch {
	case unit == surplusUnit:
		return number(row.Ours.Most)
	case unit == "ms" && value >= second:
		return withUnit(number(value/second), "s")
	default:
		return withUnit(number(value), unit)
	}
}

// rivals draws how many percent of single messages have their Job after so long. Of runs that kept no samples only the
// median and the 99th percentile are known.
func rivals(runs []*results.Run) (svg.Plot, error) {
	rows, err := results.Merge(runs, rivalsAcross)
	p := svg.Plot{
		Title: "Messages that have their Job, by the time since their push", X: svg.Axis{Label: milliseconds, Log: true},
		Y: svg.Axis{Label: "percent of the messages", Zero: true},
	}
	quantiles := map[string]float64{"push → Job seen, p50": 50, "push → Job seen, p99": 99}
	sampled := map[string]bool{}
	for _, row := range rows {
		contender, work, _ := strings.Cut(row.Work(), ": ")
		percent, is := quantiles[work]
		if !is || contender == results.Loop || sampled[contender] {
			continue
		}
		points := [][2]float64{{row.Ours.Median, percent}}
		if samples := samplesOf(row); len(samples) > 0 {
			points, sampled[contender] = share(samples), true
		}
		at := slices.IndexFunc(p.Lines, func(l svg.Line) bool { return l.Name == contender })
		if at < 0 {
			at, p.Lines = len(p.Lines), append(p.Lines, svg.Line{Name: contender})
		}
		p.Lines[at].Points = append(p.Lines[at].Points, points...)
	}
	return p, err
}

// samplesOf are those of all runs.
func samplesOf(row *results.Row) (values []float64) {
	for _, figure := range row.Figures {
		if figure.Samples != nil {
			values = append(values, figure.Samples.Ours.Values...)
		}
	}
	return values
}
