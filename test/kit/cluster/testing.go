// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// RunTests starts a cluster, stores it in into, runs the tests, stops the
// cluster and returns the exit code for TestMain. Programs that have to be
// built report progress on standard error, unless opts say otherwise.
func RunTests(m *testing.M, opts Options, into **Cluster) int {
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	cluster, err := Start(context.Background(), opts)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*into = cluster
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
		return max(code, 1)
	}
	return code
}

// Run runs the tests between start and stop and returns the exit code. stop is
// called even if start has failed half-way.
func Run(m *testing.M, start, stop func(context.Context) error) int {
	ctx := context.Background()
	code := 1
	err := start(ctx)
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, stop(ctx)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// New is Start for a single test, at whose end the cluster is stopped.
func New(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	cluster, err := Start(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			tb.Errorf("stopping the control plane: %v", err)
		}
	})
	return cluster
}
