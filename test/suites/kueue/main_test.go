// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue tests the operator together with Kueue: the real one, in the version that hack/tools/kueue pins, with
// its webhooks, and the real controller of Jobs. Only the containers of the Pods are simulated, see crew.
//
// Most tests share one control plane with one Kueue and one operator, and have a namespace, a ClusterQueue and a
// LocalQueue each. Those that stop Kueue or the operator do not run at the same time as others.
//
// No test of the suite can run where Kueue is neither in the cache folder nor can be compiled, for example without a
// network: the suite then fails at its start, and says so.
package kueue

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	kueuekit "miracle.dev/scaledjob-operator/test/kit/kueue"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// timeout bounds the wait for a fact. The controllers of Jobs and Kueue back off for up to a minute.
	timeout      = 3 * time.Minute
	pollInterval = 50 * time.Millisecond

	// parallel is how many tests run at the same time. They wait more than they work.
	parallel = 4
)

var (
	shared  *sjtest.ControlPlane
	redis   *redistest.Server
	running *operator.Operator
	kueue   *kueuekit.Kueue
)

// Priority classes of Workloads.
const (
	low     = "low"
	high    = "high"
	classes = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: ` + low + `}
value: 10
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: ` + high + `}
value: 1000
`
)

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	os.Exit(cluster.Run(m, parallel, start, stop))
}

func start(ctx context.Context) error {
	return must.Try(func(g gomega.Gomega) {
		program, err := kueuekit.Build(ctx, os.Stderr)
		g.Expect(err).NotTo(gomega.HaveOccurred(), "the tests need Kueue")
		opts := cluster.Options{ControllerManager: true, FakeNode: true, Log: os.Stderr}
		shared = must.Get(sjtest.NewControlPlane(ctx, opts))(g)
		redis = must.Get(redistest.Start(ctx, redistest.Options{Log: os.Stderr}))(g)
		kueue = must.Get(program.Install(ctx, shared.Cluster))(g)
		g.Expect(kueue.Start(ctx)).To(gomega.Succeed())
		g.Expect(shared.Cluster.Apply(ctx, strings.NewReader(classes))).To(gomega.Succeed())
		running = must.Get(startOperator(ctx))(g)
	})
}

func startOperator(ctx context.Context) (*operator.Operator, error) {
	return operator.Start(ctx, operator.Options{Cluster: shared.Cluster, Log: os.Stderr})
}

func stop(ctx context.Context) error {
	return errors.Join(running.Stop(ctx), kueue.Stop(ctx), redis.Stop(), shared.Stop())
}
