// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs Prometheus as a child process, with the targets and rules of a test, and promtool:
//
//	program, err := prometheus.Build(ctx, log)
//	err = program.Promtool(ctx, "check", "rules", path)
//	running, err := program.Start(ctx, prometheus.Options{Targets: []string{address}, Rules: rules, Interval: time.Second})
//	alerts, err := running.Alerts(ctx)
//	…
//	err = running.Stop(ctx)
//
// It has neither the user interface nor most kinds of service discovery.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	program      = "prometheus"
	promtool     = "promtool"
	startTimeout = time.Minute

	millisecondsPerSecond = 1000

	// Job is the value of the label job of all that is scraped.
	Job = "scaledjob-operator"
)

// Program is Prometheus and promtool, as files.
type Program struct {
	paths map[string]string
}

// Build returns the programs, see package programs.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	paths, err := programs.Paths(ctx, log, program, promtool)
	return Program{paths: paths}, err
}

// Promtool runs promtool. An error has what it says.
func (p Program) Promtool(ctx context.Context, args ...string) error {
	output, err := exec.CommandContext(ctx, p.paths[promtool], args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool: %w: %s", err, output)
	}
	return nil
}

// Options are the choices of Start.
type Options struct {
	// Targets are the addresses of which /metrics is scraped, over HTTP: "127.0.0.1:8080". Labels of the metrics win over
	// those of the target, as with honorLabels of a ServiceMonitor.
	Targets []string
	// Rules are a file of rules.
	Rules []byte
	// Interval is between two scrapes, and between two evaluations of the rules.
	Interval time.Duration
	// Native has histograms scraped as native ones, where there are such.
	Native bool
	// Scrape are further settings of the scrapes, as in a scrape_config: "scheme", "authorization".
	Scrape map[string]any
}

// Prometheus is a running Prometheus.
type Prometheus struct {
	sandbox *sandbox.Sandbox
	process *sandbox.Process
	url     string
}

// Start returns when Prometheus is ready. The context bounds the start, not the life of Prometheus.
func (p Program) Start(ctx context.Context, opts Options) (*Prometheus, error) {
	box, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	running := &Prometheus{sandbox: box}
	if err := running.start(ctx, p.paths[program], opts); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Prometheus: %w", err), box.Close())
	}
	return running, nil
}

func (p *Prometheus) start(ctx context.Context, path string, opts Options) error {
	address, err := p.sandbox.Address()
	if err != nil {
		return err
	}
	p.url = "http://" + address
	if err := p.configure(opts); err != nil {
		return err
	}
	p.process, err = p.sandbox.Start(program, path,
		"--config.file="+p.file("prometheus.yaml"), "--storage.tsdb.path="+p.file("data"), "--web.listen-address="+address)
	if err != nil {
		return err
	}
	return p.process.WaitServing(ctx, http.DefaultClient, p.url+"/-/ready")
}

// configure writes the configuration and the rules.
func (p *Prometheus) configure(opts Options) error {
	interval := strconv.FormatInt(opts.Interval.Milliseconds(), 10) + "ms"
	scrape := map[string]any{
		"job_name": Job, "honor_labels": true, "static_configs": []any{map[string]any{"targets": opts.Targets}},
	}
	maps.Copy(scrape, opts.Scrape)
	configuration, err := yaml.Marshal(map[string]any{
		"global": map[string]any{
			"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval,
			"scrape_native_histograms": opts.Native,
		},
		"rule_files":     []string{p.file("rules.yaml")},
		"scrape_configs": []any{scrape},
	})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"prometheus.yaml": configuration, "rules.yaml": opts.Rules} {
		if err := os.WriteFile(p.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *Prometheus) file(name string) string { return filepath.Join(p.sandbox.Dir(), name) }

// Alert is an alert that is pending or firing.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// State is "pending" or "firing".
	State string `json:"state"`
}

// Alerts returns the alerts that are pending or firing.
func (p *Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	var data struct {
		Alerts []Alert `json:"alerts"`
	}
	return data.Alerts, p.get(ctx, "/api/v1/alerts", &data)
}

// Rule is a rule that makes alerts.
type Rule struct {
	Name string `json:"name"`
	// Health is "ok" if the last evaluation succeeded. Otherwise LastError says why not.
	Health    string `json:"health"`
	LastError string `json:"lastError"`
	// For is for how many seconds the alert is pending before it fires.
	For float64 `json:"duration"`
	// Evaluations is how often the rule was evaluated.
	Evaluations int `json:"-"`
}

// Rules returns the rules that make alerts.
func (p *Prometheus) Rules(ctx context.Context) ([]Rule, error) {
	var data struct {
		Groups []struct {
			Name  string `json:"name"`
			File  string `json:"file"`
			Rules []Rule `json:"rules"`
		} `json:"groups"`
	}
	if err := p.get(ctx, "/api/v1/rules?type=alert", &data); err != nil {
		return nil, err
	}
	own, err := operator.ReadMetrics(ctx, p.url+"/metrics")
	if err != nil {
		return nil, err
	}
	var all []Rule
	for _, group := range data.Groups {
		for _, each := range group.Rules {
			each.Evaluations = int(own[fmt.Sprintf("prometheus_rule_group_iterations_total{rule_group=%q}", group.File+";"+group.Name)])
			all = append(all, each)
		}
	}
	return all, nil
}

// ScrapeErrors returns why the last scrape of each target has failed, and an empty text where it has not.
func (p *Prometheus) ScrapeErrors(ctx context.Context) ([]string, error) {
	var data struct {
		Targets []struct {
			LastError string `json:"lastError"`
		} `json:"activeTargets"`
	}
	err := p.get(ctx, "/api/v1/targets?state=active", &data)
	errs := make([]string, len(data.Targets))
	for i, target := range data.Targets {
		errs[i] = target.LastError
	}
	return errs, err
}

// Sample is a sample of an instant vector.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query returns the instant vector of an expression.
func (p *Prometheus) Query(ctx context.Context, expression string) ([]Sample, error) {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Value  [2]any            `json:"value"`
		} `json:"result"`
	}
	if err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &data); err != nil {
		return nil, err
	}
	samples := make([]Sample, len(data.Result))
	for i, result := range data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(result.Value[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("reading the value of %v: %w", result.Metric, err)
		}
		samples[i] = Sample{Labels: result.Metric, Value: value}
	}
	return samples, nil
}

// Series are the samples of a series in the course of time.
type Series struct {
	Labels map[string]string
	// Points are times, in seconds since the beginning, and values.
	Points [][2]float64
}

// QueryRange returns the values of an expression from the beginning to the end, at so many times.
func (p *Prometheus) QueryRange(ctx context.Context, expression string, begin, end time.Time, steps int) ([]Series, error) {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Values [][2]any          `json:"values"`
		} `json:"result"`
	}
	first := float64(begin.UnixMilli()) / millisecondsPerSecond
	asked := url.Values{
		"query": {expression}, "start": {begin.Format(time.RFC3339Nano)}, "end": {end.Format(time.RFC3339Nano)},
		"step": {fmt.Sprintf("%f", end.Sub(begin).Seconds()/float64(steps))},
	}
	if err := p.get(ctx, "/api/v1/query_range?"+asked.Encode(), &data); err != nil {
		return nil, err
	}
	all := make([]Series, len(data.Result))
	for i, result := range data.Result {
		all[i].Labels = result.Metric
		for _, point := range result.Values {
			at, inTime := point[0].(float64)
			value, err := strconv.ParseFloat(fmt.Sprint(point[1]), 64)
			if !inTime || err != nil {
				return nil, fmt.Errorf("reading a value of %v: %v", result.Metric, point)
			}
			all[i].Points = append(all[i].Points, [2]float64{at - first, value})
		}
	}
	return all, nil
}

// get reads the data of an answer of the HTTP API.
func (p *Prometheus) get(ctx context.Context, path string, data any) error {
	text, err := operator.Get(ctx, p.url+path)
	if err != nil {
		return err
	}
	answer := struct {
		Data any `json:"data"`
	}{data}
	return json.Unmarshal([]byte(text), &answer)
}

// Stop asks Prometheus to end, and waits for that, unless it is nil.
func (p *Prometheus) Stop(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return errors.Join(p.process.Terminate(ctx), p.sandbox.Close())
}
