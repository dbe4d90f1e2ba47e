// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Metrics are the values of the series that an operator serves, by their names with
// their labels: `up{a="b"}`.
type Metrics map[string]float64

// Metrics reads them.
func (o *Operator) Metrics(ctx context.Context) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.metricsURL, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the operator's metrics: %s", response.Status)
	}
	all := Metrics{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the operator's metrics: %w", err)
		}
		all[line[:end]] = value
	}
	return all, lines.Err()
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
