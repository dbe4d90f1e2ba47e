// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package migration tests kubectl scaledjob convert against KEDA itself: KEDA and the operator run on one real API
// server, read the same keys of a real Redis, and work for a ScaledJob of KEDA and for what convert makes of it. After
// each change of the keys, of the Pods or of the spec, both have created the same number of Jobs, or the document about
// the migration names the difference.
//
//	rows_test.go     what is compared, with the numbers of both and the place in the document
//	examples_test.go the same for the manifests with all that the documentation of KEDA shows
//	row_test.go      how a row is played
//	stage_test.go    what happens to keys, Pods and specs
//	look_test.go     has KEDA look at the keys once, and only then
package migration

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/keda"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds the wait for a fact, and pollInterval is how often it is looked for.
	timeout      = 90 * time.Second
	pollInterval = 100 * time.Millisecond
	// parallel is how many rows are played at the same time. They wait more than they work.
	parallel = 12
)

var (
	control *sjtest.ControlPlane
	ours    *operator.Operator
	theirs  *keda.KEDA
	// kedaLog is the log of KEDA.
	kedaLog *journal
	// markers is the server of the ScaledJobs that show what KEDA's cache has.
	markers *redistest.Server
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

// start starts nothing with -short, because KEDA may have to be built, which takes minutes.
func start(ctx context.Context) error {
	if testing.Short() {
		return nil
	}
	return must.Try(func(g gomega.Gomega) {
		program := must.Get(keda.Build(ctx, os.Stderr))(g)
		crds := must.Get(keda.CRDs(ctx))(g)
		opts := cluster.Options{ControllerManager: true, FakeNode: true, CRDs: []string{crds}, Log: os.Stderr}
		control = must.Get(sjtest.NewControlPlane(ctx, opts))(g)
		g.Expect(program.Install(ctx, control.Cluster)).To(gomega.Succeed())
		// The log has when KEDA has looked, on the debug level.
		theirs = must.Get(program.Start(ctx, keda.Options{
			Cluster: control.Cluster, Settings: keda.Best(), Args: []string{"--zap-encoder=json", "--zap-log-level=debug"},
		}))(g)
		kedaLog = &journal{path: theirs.LogPath(), logged: map[types.NamespacedName]logged{}}
		markers = must.Get(redistest.Start(ctx, redistest.Options{Log: os.Stderr}))(g)
		ours = must.Get(operator.Start(ctx, operator.Options{Cluster: control.Cluster, Log: os.Stderr}))(g)
	})
}

func stop(ctx context.Context) error {
	return errors.Join(ours.Stop(ctx), theirs.Stop(ctx), markers.Stop(), control.Stop())
}
