// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboardpictures draws what the dashboards of config/grafana show, from a run of six minutes: the real
// operator on a real API server, with a burst of messages, an outage of Redis, and Jobs that fail. A real Prometheus
// answers the queries of the dashboards. Only the containers of the Pods are simulated.
//
//	go run ./hack/dashboardpictures docs/images/dashboards
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// scrapeInterval is short, because the run is.
const scrapeInterval = time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboardpictures FOLDER")
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stderr, os.Args[1])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log io.Writer, folder string) (err error) {
	program, err := prometheus.Build(ctx, log)
	if err != nil {
		return err
	}
	p := &play{log: log}
	defer func() { err = errors.Join(err, p.stop(context.WithoutCancel(ctx))) }()
	leader, err := p.start(ctx)
	if err != nil {
		return err
	}
	scraping, err := program.Start(ctx, prometheus.Options{Targets: []string{leader.MetricsAddress()}, Interval: scrapeInterval})
	if err != nil {
		return err
	}
	p.stops = append(p.stops, scraping.Stop)
	if err := p.perform(ctx); err != nil {
		return err
	}
	return draw(ctx, scraping, p.begun, folder)
}

// start starts the control plane, Redis and the operator.
func (p *play) start(ctx context.Context) (leader *operator.Operator, err error) {
	if p.control, p.api, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: p.log}); err != nil {
		return nil, err
	}
	p.stops = append(p.stops, func(context.Context) error { return p.control.Stop() })
	if p.redis, err = redistest.Start(ctx, redistest.Options{Log: p.log}); err != nil {
		return nil, err
	}
	p.stops = append(p.stops, func(context.Context) error { return p.redis.Stop() })
	if leader, err = operator.Start(ctx, operator.Options{Cluster: p.control, Log: p.log}); err != nil {
		return nil, err
	}
	p.stops = append(p.stops, leader.Stop)
	return leader, nil
}

// stop stops all that was started, the last first.
func (p *play) stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(p.stops) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
