// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/suites/faults"
)

const (
	rulesFile = "config/prometheus/rules.yaml"
	// scrapeInterval is also between two evaluations of the rules.
	scrapeInterval = 5 * time.Second
	// memoryLimit is what the Deployment sets GOMEMLIMIT to.
	memoryLimit = "536870912"
	// everFired are the alerts that fire or have fired, up to a day ago, and everPending how many samples were pending.
	everFired   = `count_over_time(ALERTS{alertstate="firing"}[1d])`
	everPending = `sum by (alertname) (count_over_time(ALERTS{alertstate="pending"}[1d]))`
	everDown    = `min_over_time(up[1d]) == 0`
)

// newHealthySetting is a control plane whose Pods run, and an operator as it is shipped.
func newHealthySetting(ctx context.Context, log io.Writer) (*faults.Setting, error) {
	control, api, err := operator.StartCluster(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: log})
	if err != nil {
		return nil, err
	}
	running, err := operator.Start(ctx, operator.Options{
		Cluster: control, Log: log, Args: []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace},
		MemoryLimit: memoryLimit,
	})
	if err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	if err := running.AwaitLead(ctx); err != nil {
		return nil, errors.Join(err, running.Stop(ctx), control.Stop())
	}
	return &faults.Setting{Control: control, API: api, Operator: running}, nil
}

// watchAlerts starts a Prometheus that scrapes the operator and has the alerts as they are shipped.
func watchAlerts(ctx context.Context, log io.Writer, of *operator.Operator) (*prometheus.Prometheus, error) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		return nil, err
	}
	program, err := prometheus.Build(ctx, log)
	if err != nil {
		return nil, err
	}
	return program.Start(ctx, prometheus.Options{
		Targets: []string{of.MetricsAddress()}, Rules: rules, Interval: scrapeInterval, Native: true,
	})
}

// checkAlerts returns an error if an alert fires or has fired, or if the operator could not be scraped.
func (s *soak) checkAlerts(ctx context.Context) error {
	for query, what := range map[string]string{everFired: "an alert has fired", everDown: "a scrape has failed"} {
		samples, err := s.alerts.Query(ctx, query)
		if err != nil {
			return err
		}
		if len(samples) > 0 {
			return fmt.Errorf("%s: %v", what, samples[0].Labels)
		}
	}
	return nil
}

// reportAlerts has a line about each alert, after a storm that lasted for so long.
func (s *soak) reportAlerts(ctx context.Context, lasting time.Duration) error {
	if err := s.checkAlerts(ctx); err != nil {
		return err
	}
	rules, err := s.alerts.Rules(ctx)
	if err != nil {
		return err
	}
	pending, err := s.alerts.Query(ctx, everPending)
	if err != nil {
		return err
	}
	text, err := quiet(rules, pending, lasting)
	s.report("%s", text)
	return err
}

// quiet says of each alert how often it was evaluated, and how many samples of it were pending, in a storm that lasted
// for so long. An alert that was never evaluated, or could not be, is an error.
func quiet(rules []prometheus.Rule, pending []prometheus.Sample, lasting time.Duration) (string, error) {
	if len(rules) == 0 {
		return "", errors.New("there are no alerts")
	}
	samples := map[string]float64{}
	for _, each := range pending {
		samples[each.Labels["alertname"]] = each.Value
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d alerts, none has fired:", len(rules))
	var errs []error
	for _, rule := range rules {
		if rule.Health != "ok" || rule.Evaluations == 0 {
			errs = append(errs, fmt.Errorf("alert %s could not be evaluated: %s", rule.Name, rule.LastError))
		}
		fmt.Fprintf(&text, "\n%10s%-32s evaluated %d times, %.0f samples pending, %s", "", rule.Name, rule.Evaluations, samples[rule.Name], verdict(rule, lasting))
	}
	return text.String(), errors.Join(errs...)
}

// verdict says what it means that an alert has not fired.
func verdict(rule prometheus.Rule, lasting time.Duration) string {
	wait := time.Duration(rule.For * float64(time.Second))
	if wait >= lasting {
		return fmt.Sprintf("could not fire in this time: it waits for %s", wait)
	}
	return "none firing"
}
