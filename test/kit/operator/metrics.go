// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recentlyRead is how old recent metrics may be.
const recentlyRead = 100 * time.Millisecond

// recentMetrics are those that were read last.
type recentMetrics struct {
	sync.Mutex

	read    time.Time
	metrics Metrics
}

// Metrics are the values of the series that an operator, or another program, serves, by their names with
// their labels: `up{a="b"}`.
type Metrics map[string]float64

// Metrics reads them.
func (o *Operator) Metrics(ctx context.Context) (Metrics, error) {
	all, err := ReadMetrics(ctx, o.metricsURL)
	if err != nil {
		return nil, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	return all, nil
}

// ReadMetrics reads those at a URL.
func ReadMetrics(ctx context.Context, url string) (Metrics, error) {
	text, err := Get(ctx, url)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		all[line[:end]] = value
	}
	return all, nil
}

// RecentMetrics returns the metrics as they were at most 100 ms ago, so that many can ask for them again and again.
func (o *Operator) RecentMetrics(ctx context.Context) (Metrics, error) {
	o.recent.Lock()
	defer o.recent.Unlock()
	if time.Since(o.recent.read) < recentlyRead {
		return o.recent.metrics, nil
	}
	metrics, err := o.Metrics(ctx)
	if err == nil {
		o.recent.metrics, o.recent.read = metrics, time.Now()
	}
	return metrics, err
}

// Reconciles returns how often the ScaledJob has been reconciled.
func (m Metrics) Reconciles(scaledJob client.ObjectKey) int {
	namespace, name := fmt.Sprintf("namespace=%q", scaledJob.Namespace), fmt.Sprintf("scaledjob=%q", scaledJob.Name)
	return int(m.Sum("scaledjob_reconcile_total", namespace, name))
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
