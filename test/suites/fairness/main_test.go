// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairness has one namespace do its worst, in one way after the other and in all ways at once, and looks
// whether another namespace gets its Jobs meanwhile: a real operator, a real API server and real Redis servers.
//
// It asserts shares and an order, not times: the neighbour gets its Jobs, and its edits are rolled out, without any
// request of the hostile namespace coming to its end meanwhile. An operator that waits for the hostile namespace fails
// this: see the control.
package fairness

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds every wait but that of the next line. It only matters to a test that fails.
	timeout = 2 * time.Minute
	// passingTimeout bounds the wait for a part of the ScaledJobs that come and go.
	passingTimeout = 10 * time.Minute
	pollInterval   = 20 * time.Millisecond
)

var (
	shared  *sjtest.ControlPlane
	redis   *redistest.Server
	running *operator.Operator
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, 1, start, stop))
}

// start starts a control plane without controllers and nodes: the Jobs are the tests' own to finish, and those of
// deleted ScaledJobs stay.
func start(ctx context.Context) error {
	return must.Try(func(g gomega.Gomega) {
		shared = must.Get(sjtest.NewControlPlane(ctx, cluster.Options{Log: os.Stderr}))(g)
		redis = must.Get(redistest.Start(ctx, redistest.Options{Log: os.Stderr}))(g)
		running = must.Get(operator.Start(ctx, operator.Options{
			Cluster: shared.Cluster, Args: []string{"--max-redis-servers-per-namespace=" + strconv.Itoa(databases())}, Log: os.Stderr,
		}))(g)
	})
}

func stop(ctx context.Context) error {
	return errors.Join(running.Stop(ctx), redis.Stop(), shared.Stop())
}
