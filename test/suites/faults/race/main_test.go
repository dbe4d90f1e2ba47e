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
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

const (
	// timeout bounds every wait. It only matters to a test that fails.
	timeout      = time.Minute
	pollInterval = 50 * time.Millisecond
)

var (
	seed   = flag.Uint64("seed", rand.Uint64(), "Where the random moments begin.")
	pushes = flag.Int("pushes", 1000, "How many messages to push, at least.")

	control *cluster.Cluster
	api     client.Client // the administrator's
)

func TestMain(m *testing.M) {
	code, err := run(context.Background(), m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	control, err = cluster.Start(ctx, cluster.Options{CRDs: []string{"../../../../config/crd/bases"}, Log: os.Stderr})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	if err := operator.Install(ctx, control); err != nil {
		return 0, err
	}
	if api, err = operator.NewClient(control.Config()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
