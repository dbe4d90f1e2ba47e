// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package exactness proves that the operator never creates a Job too many.
//
// The operator runs as a process of its own against a real API server and a real Redis. Between it and the API server
// stands a proxy that holds back watch events, so that the operator's cache is stale while a storm of messages makes it
// decide again and again. A watch of the test, which nothing delays, counts every Job that was ever
// created. The control is a reconciler written the usual way: the same tests must fail for it.
package exactness

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// timeout bounds every wait. It only matters to a test that fails.
	timeout      = 3 * time.Minute
	pollInterval = 20 * time.Millisecond

	// parallel is how many tests run at the same time. They wait for lagging watches, leases and pauses more than they
	// work.
	parallel = 4

	// events are the notifications of lists and streams.
	events = redistest.DefaultEvents + "t"
)

var (
	control *cluster.Cluster
	api     client.Client // the administrator's, past every proxy
	redis   *redistest.Server

	table     jobwatch.Table
	tablePath = flag.String("table", "", "the file to write what came of the faults to")
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m, parallel, start, stop)) }

// start starts a cluster with a garbage collector, but without nodes: the Jobs are the tests' own to finish.
func start(ctx context.Context) (err error) {
	if control, api, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, Log: os.Stderr}); err != nil {
		return err
	}
	redis, err = redistest.Start(ctx, redistest.Options{Events: events, Log: os.Stderr})
	return err
}

func stop(context.Context) error {
	return errors.Join(table.Write(*tablePath), redis.Stop(), control.Stop())
}

// newNamespace returns a namespace that is deleted after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	return control.NewNamespace(t, "exactness")
}

// startOperator starts an operator that reaches the API server through the
// proxy, and watches these namespaces, or all if none is given.
func startOperator(t *testing.T, through *proxy, namespaces []string, args ...string) *operator.Operator {
	t.Helper()
	access := must.Get(control.ServiceAccountConfig(t.Context(), operator.Namespace, operator.ServiceAccount))(NewWithT(t))
	return operator.New(t, operator.Options{
		Cluster: control,
		Config:  through.Config(access),
		Args:    append(args, "--watch-namespaces="+strings.Join(namespaces, ","), "--polling-fallback-interval=0"),
		Log:     os.Stderr,
	})
}
