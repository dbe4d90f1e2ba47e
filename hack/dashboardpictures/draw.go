// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/dashboards"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/svg"
)

const (
	// steps are how many points a line has.
	steps = 180
	// mostLines of a panel are drawn: those with the highest values.
	mostLines = 6
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

// draw draws a picture of each dashboard into a folder.
func draw(ctx context.Context, scraping *prometheus.Prometheus, begun time.Time, folder string) error {
	queries, err := dashboards.Read("config/grafana")
	if err != nil {
		return err
	}
	var all []svg.Plot
	for name, panels := range pictures {
		picture := svg.Plot{File: name + ".svg", Sum: "drawn from query results of a real run by make dashboard-pictures"}
		for _, panel := range panels {
			of, err := queriesOf(queries, name, panel[0])
			if err != nil {
				return err
			}
			drawn := svg.Plot{Title: panel[0], X: svg.Axis{Label: "minutes", Zero: true}, Y: svg.Axis{Label: panel[1], Zero: true}}
			for _, query := range of {
				lines, err := answer(ctx, scraping, query, begun)
				if err != nil {
					return fmt.Errorf("%v: %w", query, err)
				}
				drawn.Lines = append(drawn.Lines, lines...)
			}
			drawn.Lines = highest(drawn.Lines)
			picture.Panels = append(picture.Panels, drawn)
		}
		all = append(all, picture)
	}
	return svg.Draw(ctx, folder, all)
}

// queriesOf returns the queries of a panel. It is an error if there are none.
func queriesOf(all []dashboards.Query, dashboard, panel string) ([]dashboards.Query, error) {
	var of []dashboards.Query
	for _, query := range all {
		if query.Dashboard == dashboard && query.Panel == panel {
			of = append(of, query)
		}
	}
	if len(of) == 0 {
		return nil, fmt.Errorf("the dashboard %s has no panel %q with a query", dashboard, panel)
	}
	return of, nil
}

// answer is a line for each series.
func answer(ctx context.Context, scraping *prometheus.Prometheus, query dashboards.Query, begun time.Time) ([]svg.Line, error) {
	series, err := scraping.QueryRange(ctx, query.Fill(variables(query.Dashboard)), begun, time.Now(), steps)
	if err != nil {
		return nil, err
	}
	var lines []svg.Line
	for _, each := range series {
		made := svg.Line{Name: query.Name(each.Labels)}
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

// highest returns the lines with the highest values.
func highest(lines []svg.Line) []svg.Line {
	top := func(l svg.Line) float64 {
		return slices.MaxFunc(l.Points, func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) })[1]
	}
	slices.SortStableFunc(lines, func(a, b svg.Line) int { return cmp.Compare(top(b), top(a)) })
	return lines[:min(mostLines, len(lines))]
}
