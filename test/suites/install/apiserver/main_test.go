// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver sends what the Helm chart and the kustomizations render to a real API server: it must accept all of
// it, the operator must work with the permissions that it gets, and removing the operator must leave the ScaledJobs
// alone. No Pod runs.
package apiserver

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// control has the CRD and the namespaces of render.Sets.
var (
	control *cluster.Cluster
	admin   client.Client
)

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) error {
	return must.Try(func(g Gomega) {
		// The first is what the tests of monitors need of the Prometheus Operator.
		crds := []string{"testdata/monitors.yaml", "../../../../config/crd/bases"}
		// The controller-manager aggregates roles.
		opts := cluster.Options{ControllerManager: true, CRDs: crds, Log: os.Stderr}
		control = must.Get(cluster.Start(ctx, opts))(g)
		admin = must.Get(operator.NewClient(control.Config()))(g)
		g.Expect(createNamespaces(ctx, admin, append(render.Watched, render.Namespace))).To(Succeed())
	})
}

func stop(context.Context) error { return control.Stop() }

func createNamespaces(ctx context.Context, api client.Client, names []string) error {
	for _, name := range names {
		if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}
