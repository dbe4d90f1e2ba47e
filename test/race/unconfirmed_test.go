// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/controller"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// startUnconfirmed runs an operator in this process that is not woken when a
// subscription begins, nor when that proves that growth is announced.
func startUnconfirmed(t *testing.T, namespace string) {
	t.Helper()
	g := NewWithT(t)
	namespaces, stores := []string{namespace}, &consistency.Stores{}
	mgr, err := ctrl.NewManager(control.Config(), ctrl.Options{
		Scheme:  newScheme(),
		Cache:   controller.CacheOptions(stores, namespaces),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	g.Expect(err).NotTo(HaveOccurred())
	wakes := make(controller.Wakes)
	pool := redisconn.NewPool(logr.Discard())
	watcher := keyspace.New(keyspace.Options[types.NamespacedName]{Pool: pool, Deliver: unlessConfirmed(wakes)})
	reconciler := &controller.Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Jobs:     stores,
		Queues:   queue.NewReader(pool),
		Watcher:  watcher,
		Gate:     consistency.NewGate(mgr.GetClient(), mgr.GetAPIReader(), stores, namespaces),
		Recorder: mgr.GetEventRecorder("race"),
		Metrics:  metrics.New(prometheus.NewRegistry()),
		Wakes:    wakes,
	}
	g.Expect(reconciler.SetupWithManager(t.Context(), mgr, 32)).To(Succeed())
	g.Expect(mgr.Add(pool)).To(Succeed())
	g.Expect(mgr.Add(watcher)).To(Succeed())
	var running errgroup.Group
	running.Go(func() error { return mgr.Start(t.Context()) })
	t.Cleanup(func() { g.Expect(running.Wait()).To(Succeed()) })
	g.Expect(mgr.GetCache().WaitForCacheSync(t.Context())).To(BeTrue())
}

// unlessConfirmed passes on all other wakes.
func unlessConfirmed(wakes controller.Wakes) func(context.Context, keyspace.Wake[types.NamespacedName]) {
	return func(ctx context.Context, heard keyspace.Wake[types.NamespacedName]) {
		if heard.Cause != keyspace.Confirmed && heard.Cause != keyspace.Changed {
			wakes.Deliver(ctx, heard)
		}
	}
}
