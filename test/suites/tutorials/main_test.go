// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorials does what the tutorials say: it follows their commands in a control plane with the operator, and
// runs their workers on real Redis servers.
package tutorials

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	root         = "../../.."
	timeout      = time.Minute
	pollInterval = 20 * time.Millisecond
	// sampleEvents is the setting of config/samples/redis.yaml.
	sampleEvents = "Klgzt"
	// parallel is how many tests run at the same time. They mostly wait.
	parallel = 8
)

func TestMain(m *testing.M) {
	rediscli.Play()
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

// shared is the control plane in which the pages are followed, and its operator. The Redis server has the settings of
// the sample that the pages use.
var shared struct {
	*sjtest.ControlPlane

	operator *operator.Operator
	redis    *redistest.Server
}

func start(ctx context.Context) error {
	return must.Try(func(g gomega.Gomega) {
		g.Expect(buildWorkers(ctx)).To(gomega.Succeed())
		shared.redis = must.Get(redistest.Start(ctx, redistest.Options{Events: sampleEvents, Log: os.Stderr}))(g)
		shared.ControlPlane = must.Get(sjtest.NewControlPlane(ctx, cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr}))(g)
		shared.operator = must.Get(operator.Start(ctx, operator.Options{Cluster: shared.Cluster, Log: os.Stderr}))(g)
	})
}

func stop(ctx context.Context) error {
	return errors.Join(removeWorkers(), shared.operator.Stop(ctx), shared.redis.Stop(), shared.Stop())
}
