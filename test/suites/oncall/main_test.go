// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package oncall tests that the alerts of config/prometheus/rules.yaml fire when what they are about happens: a real
// Prometheus scrapes the real operator, and its standby, while Redis, the API server or the Pods are in trouble. Only
// the containers of the Pods are simulated. Package rules below it tests the alerts with made-up series.
//
// No test of the suite can run where Prometheus is neither in the cache folder nor can be compiled.
package oncall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	prometheuskit "miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds the wait for a fact. The operator asks a server to track keys once a minute.
	timeout      = 3 * time.Minute
	pollInterval = 200 * time.Millisecond
	// quietPeriod is how long an alert must not fire where no fact shows that it will not: several times as long as the
	// alerts wait.
	quietPeriod = 10 * time.Second
	// interval is between two scrapes.
	interval = time.Second

	rulesFile = "../../../config/prometheus/rules.yaml"

	// parallel is how many tests run at the same time. They wait more than they work.
	parallel = 4
)

var (
	shared  *sjtest.ControlPlane
	redis   *redistest.Server
	leader  *operator.Operator
	standby *operator.Operator
	program prometheuskit.Program
	// prometheus and classic scrape the leader and its standby: the one native histograms, the other classic ones.
	prometheus, classic *prometheuskit.Prometheus
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	gomega.SetDefaultConsistentlyDuration(quietPeriod)
	gomega.SetDefaultConsistentlyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) error {
	return must.Try(func(g gomega.Gomega) {
		var err error
		program, err = prometheuskit.Build(ctx, os.Stderr)
		g.Expect(err).NotTo(gomega.HaveOccurred(), "the tests need Prometheus")
		opts := cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr}
		shared = must.Get(sjtest.NewControlPlane(ctx, opts))(g)
		redis = must.Get(redistest.Start(ctx, redistest.Options{Log: os.Stderr}))(g)
		replica := operator.Options{
			Cluster: shared.Cluster, Log: os.Stderr,
			Args: []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace},
		}
		leader = must.Get(operator.Start(ctx, replica))(g)
		g.Expect(leader.AwaitLead(ctx)).To(gomega.Succeed())
		standby = must.Get(operator.Start(ctx, replica))(g)
		prometheus = must.Get(watch(ctx, true, leader, standby))(g)
		classic = must.Get(watch(ctx, false, leader, standby))(g)
	})
}

func stop(ctx context.Context) error {
	return errors.Join(
		prometheus.Stop(ctx), classic.Stop(ctx), standby.Stop(ctx), leader.Stop(ctx), redis.Stop(), shared.Stop(),
	)
}

// watch starts a Prometheus that scrapes these operators.
func watch(ctx context.Context, native bool, operators ...*operator.Operator) (*prometheuskit.Prometheus, error) {
	return watchWith(ctx, prometheuskit.Options{Native: native}, operators...)
}

// watchWith is watch with further choices.
func watchWith(ctx context.Context, opts prometheuskit.Options, operators ...*operator.Operator) (*prometheuskit.Prometheus, error) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		return nil, err
	}
	shorter, err := shorten(string(rules))
	if err != nil {
		return nil, err
	}
	opts.Rules, opts.Interval = []byte(shorter), interval
	for _, each := range operators {
		opts.Targets = append(opts.Targets, each.MetricsAddress())
	}
	return program.Start(ctx, opts)
}

// shorten has each alert fire when its expression has been true for three seconds, has rates and increases be those of
// fifteen seconds, and has messages be old after three. The rest of the rules is as it is shipped, also the fifteen
// minutes in which the operator tries to have keys tracked, which it does once a minute.
func shorten(rules string) (string, error) {
	for _, change := range []struct{ from, to string }{
		{`(?m)^    for: \w+$`, "    for: 3s"}, {`\[(5m|10m|30m|1h|6h)\]`, "[15s]"}, {`> 1800\b`, "> 3"},
	} {
		pattern := regexp.MustCompile(change.from)
		if !pattern.MatchString(rules) {
			return "", fmt.Errorf("the rules have nothing like %s", change.from)
		}
		rules = pattern.ReplaceAllString(rules, change.to)
	}
	return rules, nil
}
