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

const operatorName = "operator"

// plot makes the plot of this name. The file holds a sum of all its data, so that a test finds one that is out of date.
func plot(runs []*results.Run, name string) (made svg.Plot, err error) {
	switch name {
	case "latency":
		made, err = latency(runs)
	case "scale-memory":
		made, err = scale(runs, "Memory of the operator at rest", "MB", "memory of the process")
	case "scale-cpu":
		made, err = scale(runs, "CPU of the operator at rest", "cores", "CPU at rest")
	}
	if err != nil {
		return svg.Plot{}, err
	}
	if len(made.Lines) == 0 {
		return svg.Plot{}, fmt.Errorf("there is no plot %q", name)
	}
	made.File = name + ".svg"
	text, err := json.Marshal(made)
	made.Sum = fmt.Sprintf("%x", sha256.Sum256(text))
	return made, err
}

// latency draws the share of the samples that are at most as long as a time, of all runs together.
func latency(runs []*results.Run) (svg.Plot, error) {
	rows, err := results.Merge(runs, "latency")
	var references, ours []float64
	for _, row := range rows {
		for _, figure := range row.Figures {
			if figure.Samples != nil {
				references, ours = append(references, figure.Samples.Reference...), append(ours, figure.Samples.Ours...)
			}
		}
	}
	return svg.Plot{
		Title: "Messages that have their Job, by the time since their push",
		X:     svg.Axis{Label: "milliseconds", Log: true}, Y: svg.Axis{Label: "percent of the messages"},
		Lines: []svg.Line{{Name: results.Loop, Points: share(references), Reference: true}, {Name: operatorName, Points: share(ours)}},
	}, err
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

// scale draws a figure over the number of ScaledJobs. The axes are logarithmic, and have no place for 0.
func scale(runs []*results.Run, title, unit, work string) (svg.Plot, error) {
	rows, err := results.Merge(runs, "scale")
	if err != nil {
		return svg.Plot{}, err
	}
	line := svg.Line{Name: work}
	for _, row := range rows {
		first, second, _ := strings.Cut(row.First.Work, " ScaledJobs: ")
		if second != work || row.Ours.Median == 0 {
			continue
		}
		count, err := strconv.Atoi(first)
		if err != nil {
			return svg.Plot{}, err
		}
		line.Points = append(line.Points, [2]float64{float64(count), row.Ours.Median})
	}
	return svg.Plot{
		Title: title, X: svg.Axis{Label: "ScaledJobs", Log: true}, Y: svg.Axis{Label: unit, Log: true}, Lines: []svg.Line{line},
	}, nil
}
