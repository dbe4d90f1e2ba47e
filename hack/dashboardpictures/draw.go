// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/dashboards"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
)

const (
	// steps are how many points a line has.
	steps = 180
	// mostLines of a panel are drawn: those with the highest values.
	mostLines = 6
	// plotProgram draws. It is a module of its own.
	plotProgram = "test/bench/plot"
)

// pictures are the most important panels of each dashboard, with the labels of their vertical axes.
var pictures = map[string][][2]string{
	"scaledjobs": {
		{"Outstanding messages, by namespace", "messages"},
		{"Active Jobs, by namespace", "Jobs"},
		{"Not Ready, by reason", "ScaledJobs"},
		{"Limited, by reason", "ScaledJobs"},
	},
	"scaledjob": {
		{"Outstanding messages, by key", "messages"},
		{"Jobs", "Jobs"},
		{"Jobs created and finished", "a minute"},
		{"From push to Job", "seconds"},
	},
	"operator": {
		{"Reconciles, by result", "a second"},
		{"Requests to the API server", "a second"},
		{"Subscribed to notifications", "1: yes, 0: no"},
		{"Duration of reads", "seconds"},
	},
}

// variables are what is selected in the dashboards.
func variables(dashboard string) map[string]string {
	values := map[string]string{"namespace": ".*", "job": prometheus.Job, "__rate_interval": "15s"}
	if dashboard == "scaledjob" {
		values["namespace"], values["scaledjob"] = "mail", "image-processor"
	}
	return values
}

// plot is what the program for plots reads.
type plot struct {
	File   string `json:"file,omitempty"`
	Title  string `json:"title"`
	X      axis   `json:"x"`
	Y      axis   `json:"y"`
	Lines  []line `json:"lines"`
	Sum    string `json:"sum,omitempty"`
	Panels []plot `json:"panels,omitempty"`
}

type axis struct {
	Label string `json:"label"`
	Zero  bool   `json:"zero"`
}

type line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// draw draws a picture of each dashboard into a folder.
func draw(ctx context.Context, scraping *prometheus.Prometheus, begun time.Time, folder string) error {
	queries, err := dashboards.Read("config/grafana")
	if err != nil {
		return err
	}
	var all []plot
	for name, panels := range pictures {
		picture := plot{File: name + ".svg", Sum: "drawn from query results of a real run by make dashboard-pictures"}
		for _, panel := range panels {
			drawn := plot{Title: panel[0], X: axis{"minutes", true}, Y: axis{panel[1], true}}
			for _, query := range queries {
				if query.Dashboard != name || query.Panel != panel[0] {
					continue
				}
				lines, err := answer(ctx, scraping, query, begun)
				if err != nil {
					return fmt.Errorf("%v: %w", query, err)
				}
				drawn.Lines = append(drawn.Lines, lines...)
			}
			picture.Panels = append(picture.Panels, drawn.highest())
		}
		all = append(all, picture)
	}
	return drawPlots(ctx, folder, all)
}

// answer is a line for each series.
func answer(ctx context.Context, scraping *prometheus.Prometheus, query dashboards.Query, begun time.Time) ([]line, error) {
	series, err := scraping.QueryRange(ctx, query.Fill(variables(query.Dashboard)), begun, time.Now(), steps)
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, each := range series {
		made := line{Name: query.Name(each.Labels)}
		for _, point := range each.Points {
			if !math.IsNaN(point[1]) {
				made.Points = append(made.Points, [2]float64{point[0] / time.Minute.Seconds(), point[1]})
			}
		}
		if strings.HasPrefix(query.Expr, "count") {
			made.Points = withZeros(made.Points, time.Since(begun).Minutes())
		}
		if len(made.Points) > 0 {
			lines = append(lines, made)
		}
	}
	return lines, nil
}

// withZeros has a count be 0 where it has no points, until the end: there was nothing to count.
func withZeros(points [][2]float64, end float64) [][2]float64 {
	const step = 1.0 / steps
	var whole [][2]float64
	last := 0.0
	for _, point := range append(points, [2]float64{end, 0}) {
		if point[0]-last > 2*step*end {
			whole = append(whole, [2]float64{last + step*end, 0}, [2]float64{point[0] - step*end, 0})
		}
		whole = append(whole, point)
		last = point[0]
	}
	return whole
}

// highest keeps the lines with the highest values.
func (p plot) highest() plot {
	top := func(l line) float64 {
		return slices.MaxFunc(l.Points, func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) })[1]
	}
	slices.SortStableFunc(p.Lines, func(a, b line) int { return cmp.Compare(top(b), top(a)) })
	p.Lines = p.Lines[:min(mostLines, len(p.Lines))]
	return p
}

// drawPlots has the plots drawn into a folder.
func drawPlots(ctx context.Context, folder string, plots []plot) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	input, err := json.Marshal(plots)
	if err != nil {
		return err
	}
	drawing := exec.CommandContext(ctx, "go", "run", ".", folder)
	drawing.Dir, drawing.Stdin = plotProgram, bytes.NewReader(input)
	if output, err := drawing.CombinedOutput(); err != nil {
		return fmt.Errorf("drawing: %w\n%s", err, output)
	}
	return nil
}
