// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"miracle.dev/scaledjob-operator/test/bench/results"
	"miracle.dev/scaledjob-operator/test/kit/svg"
)

// sumOf identifies a plot. The file holds it, so that a test finds one that is out of date.
func sumOf(p svg.Plot) string {
	p.Sum = ""
	text, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

const (
	milliseconds = "milliseconds"
	operatorLine = "operator"
	scaledJobs   = "ScaledJobs"
)

// plots are those that the page can have, by their names. A plot without lines was not measured.
var plots = map[string]func([]*results.Run) (svg.Plot, error){
	"latency":       shares("latency", "Messages that have their Job, by the time since their push"),
	"fanout":        shares("fanout", "Fan-out: messages that have their Job, by the time since their push"),
	"bursts":        bursts,
	"keda":          rivals,
	"scale-ready":   scale("Time until all ScaledJobs are Ready, beyond the creates", "seconds", "all Ready, beyond the creates"),
	"scale-memory":  scale("Memory of the operator at rest", "MB", "memory of the process", "memory of objects in use"),
	"scale-cpu":     scale("CPU of the operator at rest", "cores", "CPU at rest"),
	"scale-latency": scale("Time from a push to its Job", milliseconds, "push → Job seen, p50", "push → Job seen, p99"),
}

// shares draws how many percent of the samples are at most so long, of all runs together.
func shares(measurement, title string) func([]*results.Run) (svg.Plot, error) {
	return func(runs []*results.Run) (svg.Plot, error) {
		rows, err := results.Merge(runs, measurement)
		p := svg.Plot{Title: title, X: svg.Axis{Label: milliseconds, Log: true}, Y: svg.Axis{Label: "percent of the messages"}}
		rows = slices.DeleteFunc(rows, func(r *results.Row) bool { return r.Figures[0].Samples == nil })
		for _, row := range rows {
			var references, ours []float64
			for _, figure := range row.Figures {
				references = append(references, figure.Samples.Reference.Values...)
				ours = append(ours, figure.Samples.Ours.Values...)
			}
			of := ""
			if len(rows) > 1 {
				of = strings.TrimSuffix(row.Work(), "p50")
			}
			p.Lines = append(p.Lines,
				svg.Line{Name: of + results.Loop, Points: share(references), Reference: true}, svg.Line{Name: of + operatorLine, Points: share(ours)})
		}
		return p, err
	}
}

// share are the points of the curve, no more than can be seen.
func share(values []float64) (points [][2]float64) {
	const all, most = 100, 200
	sorted := slices.Sorted(slices.Values(values))
	for i := range min(most, len(sorted)) {
		at := (i + 1) * len(sorted) / min(most, len(sorted))
		points = append(points, [2]float64{sorted[at-1], all * float64(at) / float64(len(sorted))})
	}
	return points
}

// bursts draws when each part of the Jobs was there, in the median of all rounds of all runs.
func bursts(runs []*results.Run) (svg.Plot, error) {
	rows, err := results.Merge(runs, "bursts")
	p := svg.Plot{Title: "Jobs after a burst of messages", X: svg.Axis{Label: milliseconds}, Y: svg.Axis{Label: "Jobs"}}
	for _, row := range rows {
		var references, ours [][]float64
		for _, figure := range row.Figures {
			if figure.Curves != nil {
				references, ours = append(references, figure.Curves.Reference...), append(ours, figure.Curves.Ours...)
			}
		}
		if len(ours) == 0 {
			continue
		}
		count := row.Figures[0].Curves.Count
		p.Lines = append(p.Lines,
			svg.Line{Name: results.Loop, Points: growth(references, count), Reference: true}, svg.Line{Name: operatorLine, Points: growth(ours, count)})
	}
	return p, err
}

// growth are the medians of curves, from the push on.
func growth(curves [][]float64, count int) [][2]float64 {
	points := [][2]float64{{0, 0}}
	if len(curves) == 0 {
		return points
	}
	for i := range curves[0] {
		var at []float64
		for _, curve := range curves {
			if i < len(curve) {
				at = append(at, curve[i])
			}
		}
		points = append(points, [2]float64{results.SpreadOf(at).Median, float64(count*(i+1)) / float64(len(curves[0]))})
	}
	return points
}

// scale draws figures over the number of ScaledJobs, with what they are compared with.
func scale(title, unit string, works ...string) func([]*results.Run) (svg.Plot, error) {
	return func(runs []*results.Run) (svg.Plot, error) {
		rows, err := results.Merge(runs, "scale")
		p := svg.Plot{Title: title, X: svg.Axis{Label: scaledJobs, Log: true}, Y: svg.Axis{Label: unit, Log: true}}
		for _, work := range works {
			ours, reference := svg.Line{Name: work}, svg.Line{Name: work, Reference: true}
			for _, row := range rows {
				count, is := countOf(row.Work(), work)
				if !is {
					continue
				}
				add(&ours, count, row.Ours.Median)
				if ratio(row) != none {
					reference.Name = work + ": " + row.Figures[0].Beside
					add(&reference, count, row.Reference.Median)
				}
			}
			for _, made := range []svg.Line{reference, ours} {
				if len(made.Points) > 0 {
					p.Lines = append(p.Lines, made)
				}
			}
		}
		return p, err
	}
}

// add adds a point, if it can be on an axis whose steps are powers of ten.
func add(l *svg.Line, x, y float64) {
	if x > 0 && y > 0 {
		l.Points = append(l.Points, [2]float64{x, y})
	}
}

// countOf is the number of ScaledJobs of a figure, if it is of this work.
func countOf(of, work string) (count float64, is bool) {
	first, second, _ := strings.Cut(of, ": ")
	digits, is := strings.CutSuffix(first, " "+scaledJobs)
	if !is || second != work {
		return 0, false
	}
	whole, err := strconv.Atoi(digits)
	return float64(whole), err == nil
}
