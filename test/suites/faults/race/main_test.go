// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package race pushes messages at random moments around the beginning of a
// subscription: while a ScaledJob is made, while it is pointed at another queue,
// and while its connection is killed. Every message asks for a Job of its own,
// and nothing but its own wake-up brings it: the resync is an hour away, and the
// polling fall-back is off.
//
// It prints the seed of its random moments, and takes one to play them again:
//
//	go test ./test/suites/faults/race -args -seed=1 -pushes=10000
package race

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds every wait. It only matters to a test that fails.
	timeout      = 3 * time.Minute
	pollInterval = 50 * time.Millisecond
)

var (
	seed   = flag.Uint64("seed", rand.Uint64(), "Where the random moments begin.")
	pushes = flag.Int("pushes", 0, "How many messages to push, at least. The default is 1000, and 200 with -short.")

	control *cluster.Cluster
	api     client.Client // the administrator's
	jobs    *jobwatch.AllJobs
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m, 0, start, stop)) }

func start(ctx context.Context) error {
	switch {
	case *pushes > 0:
	case testing.Short():
		*pushes = 200
	default:
		*pushes = 1000
	}
	plane, err := sjtest.NewControlPlane(ctx, cluster.Options{Log: os.Stderr})
	if err == nil {
		control, api, jobs = plane.Cluster, plane.API, plane.AllJobs
	}
	return err
}

func stop(context.Context) error {
	if control == nil {
		return nil
	}
	return control.Stop()
}
