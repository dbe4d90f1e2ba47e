// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboardpictures draws what the dashboards of config/grafana show, from a run of six minutes: the real operator
// on a real API server, with a burst of messages, an outage of Redis, and Jobs that fail. A real Prometheus answers the
// queries of the dashboards. Only the containers of the Pods are simulated.
//
//	go run ./hack/dashboardpictures docs/metrics
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stderr, os.Args[1])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log io.Writer, folder string) (err error) {
	var stops []func(context.Context) error
	defer func() {
		for _, stop := range slices.Backward(stops) {
			err = errors.Join(err, stop(context.WithoutCancel(ctx)))
		}
	}()
	program, err := prometheus.Build(ctx, log)
	if err != nil {
		return err
	}
	control, api, err := operator.StartCluster(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: log})
	if err != nil {
		return err
	}
	stops = append(stops, func(context.Context) error { return control.Stop() })
	server, err := redistest.Start(ctx, redistest.Options{Log: log})
	if err != nil {
		return err
	}
	stops = append(stops, func(context.Context) error { return server.Stop() })
	leader, err := operator.Start(ctx, operator.Options{Cluster: control, Log: log})
	if err != nil {
		return err
	}
	stops = append(stops, leader.Stop)
	scraping, err := program.Start(ctx, prometheus.Options{Targets: []string{leader.MetricsAddress()}, Interval: scrapeInterval})
	if err != nil {
		return err
	}
	stops = append(stops, scraping.Stop)
	p := &play{log: log, control: control, api: api, redis: server}
	if err := p.perform(ctx); err != nil {
		return err
	}
	return draw(ctx, scraping, p.begun, folder)
}
