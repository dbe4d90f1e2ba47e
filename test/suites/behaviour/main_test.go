// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour tests what the operator promises, from outside: the real binary, run as the ServiceAccount that is
// shipped, turns messages in real Redis servers into Jobs of a real API server. Kubernetes' own controllers run the
// Jobs, and clean them up. Only the containers are simulated, see the simulated Node of package cluster.
//
// Most tests share one operator and one Redis server. That operator serves every namespace of a control plane where
// Pods run. Each test has a namespace and its queues to itself. Tests about the life of an operator start their own,
// which serves their namespaces alone, in a second control plane that has no shared operator and where no Pod runs.
package behaviour

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds the wait for a fact. It is usually there within milliseconds, but Kubernetes' own controllers back
	// off for longer.
	timeout = time.Minute
	// pollInterval is how often a fact is looked for.
	pollInterval = 50 * time.Millisecond
	// noFallback is given to operators, so that they read no depth unless a notification, a Job or a resync asks for
	// it: a lost wake-up shows.
	noFallback = "--polling-fallback-interval=0"
	// quietPeriod is how long nothing must happen where no fact tells that it will not.
	quietPeriod = 2 * time.Second

	// parallel is how many tests run at the same time. They wait more than they work.
	parallel = 8
)

// allEvents are the notifications of every type of queue.
const allEvents = "Kglszht"

var (
	// shared is what most tests share. Pods run in its control plane.
	shared struct {
		*sjtest.ControlPlane

		operator *operator.Operator
		redis    *redistest.Server
	}
	// withoutOperator is the control plane of tests that start operators themselves.
	withoutOperator *sjtest.ControlPlane
)

func TestMain(m *testing.M) {
	rediscli.Play()
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	gomega.SetDefaultConsistentlyDuration(quietPeriod)
	gomega.SetDefaultConsistentlyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return startShared(ctx) })
	group.Go(func() (err error) {
		withoutOperator, err = sjtest.NewControlPlane(ctx, cluster.Options{Log: os.Stderr})
		return err
	})
	return group.Wait()
}

func startShared(ctx context.Context) error {
	return must.Try(func(g gomega.Gomega) {
		shared.redis = must.Get(redistest.Start(ctx, redistest.Options{Events: allEvents, Log: os.Stderr}))(g)
		shared.ControlPlane = must.Get(sjtest.NewControlPlane(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr}))(g)
		shared.operator = must.Get(operator.Start(ctx, operator.Options{
			Cluster: shared.Cluster, Args: []string{noFallback}, Log: os.Stderr,
		}))(g)
	})
}

// stop ends what runs. That the shared operator ends well is a test as well.
func stop(ctx context.Context) error {
	return errors.Join(shared.operator.Stop(ctx), shared.redis.Stop(), shared.Stop(), withoutOperator.Stop())
}
