// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command clipictures prints what kubectl scaledjob shows on terminals of two sizes, from a real run: the real
// operator, an API server and a Redis server. Only the containers of the Pods are simulated. It needs tmux, and the
// program of the plugin.
//
//	go run ./hack/clipictures bin/kubectl-scaledjob FOLDER
//
// For each command and size it writes a file with the screen, which hack/picture draws.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: clipictures PLUGIN FOLDER")
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stderr, os.Args[1], os.Args[2])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log io.Writer, plugin, folder string) (err error) {
	if plugin, err = filepath.Abs(plugin); err != nil {
		return err
	}
	s := &setting{}
	defer func() { err = errors.Join(err, s.stop(context.WithoutCancel(ctx))) }()
	if err := s.start(ctx, log); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	background, stop := context.WithCancel(ctx)
	defer stop()
	go s.keepBusy(background)
	for _, size := range []struct{ columns, rows int }{{80, 24}, {200, 50}} {
		for _, each := range commands {
			name := fmt.Sprintf("cli-%s-%dx%d", each.name, size.columns, size.rows)
			screen, err := capture(ctx, plugin, s.control.Kubeconfig(), each, size.columns, size.rows)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := os.WriteFile(filepath.Join(folder, name), screen, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts the control plane, Redis and the operator.
func (s *setting) start(ctx context.Context, log io.Writer) (err error) {
	if s.control, s.api, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: log}); err != nil {
		return err
	}
	s.stops = append(s.stops, func(context.Context) error { return s.control.Stop() })
	if s.redis, err = redistest.Start(ctx, redistest.Options{Log: log}); err != nil {
		return err
	}
	s.stops = append(s.stops, func(context.Context) error { return s.redis.Stop() })
	running, err := operator.Start(ctx, operator.Options{Cluster: s.control, Log: log})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, running.Stop)
	return nil
}

// stop ends what was started, the last first.
func (s *setting) stop(ctx context.Context) (err error) {
	for _, stop := range slices.Backward(s.stops) {
		err = errors.Join(err, stop(ctx))
	}
	return err
}

// command is one that is shown.
type command struct {
	name string
	args string
	// lasts is how long it runs until its screen is taken; 0 for one that ends.
	lasts time.Duration
}

var commands = []command{
	{name: "doctor", args: "doctor emails -n mail"},
	{name: "explain", args: "explain emails -n mail"},
	{name: "top", args: "top -A --interval 1s", lasts: 25 * time.Second},
}
