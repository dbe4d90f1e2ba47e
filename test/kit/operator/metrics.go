// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Metrics are the values of the series that an operator serves, by their names with
// their labels: `up{a="b"}`.
type Metrics map[string]float64

// Metrics reads them.
func (o *Operator) Metrics(ctx context.Context) (Metrics, error) {
	text, err := Get(ctx, o.metricsURL)
	if err != nil {
		return nil, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	all := Metrics{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSuffix(line, "\n")
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the operator's metrics: %w", err)
		}
		all[line[:end]] = value
	}
	return all, nil
}

// Sum adds up the series of this name that have all of these labels, each given as
// it is written: `namespace="default"`.
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
	for series, value := range m {
		if isSeries(series, name, labels) {
			sum += value
		}
	}
	return sum
}

func isSeries(series, name string, labels []string) bool {
	found, rest, _ := strings.Cut(series, "{")
	if found != name {
		return false
	}
	for _, label := range labels {
		if !strings.Contains(rest, label) {
			return false
		}
	}
	return true
}
