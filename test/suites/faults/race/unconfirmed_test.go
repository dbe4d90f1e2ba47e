// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"miracle.dev/scaledjob-operator/internal/controller"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

type (
	heard = coalesce.Wake
	// delivery is what becomes of a wake.
	delivery func(heard)
)

// startWith runs an operator in this process whose wakes are delivered in this way.
func startWith(t *testing.T, namespace string, through func(*enqueue.Wakes) delivery) {
	t.Helper()
	g := NewWithT(t)
	namespaces, cached := []string{namespace}, &controller.Cache{}
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	scaledjob.AddToScheme(scheme)
	mgr, err := ctrl.NewManager(control.Config(), ctrl.Options{
		Scheme:  scheme,
		Cache:   cached.Options(namespaces, logr.Discard()),
		Metrics: metricsserver.Options{BindAddress: "0"},
		// One after the other has the same name in this process.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	g.Expect(err).NotTo(HaveOccurred())
	wakes := enqueue.NewWakes()
	pool := connection.NewPool(connection.Options{})
	directory := topology.New(pool, logr.Discard())
	collectors := metrics.New(prometheus.NewRegistry())
	watcher := keyspace.New(keyspace.Options{
		Pool: pool, Directory: directory, Deliver: through(wakes), Timing: restless(), Recorder: collectors,
	})
	reconciler := &controller.Reconciler{
		Cache:    cached,
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Servers:  directory,
		Queues:   queue.NewReader(pool, directory),
		Watcher:  watcher,
		Gate:     jobcontrol.NewGate(mgr.GetClient(), mgr.GetAPIReader(), &cached.Stores, namespaces),
		Recorder: mgr.GetEventRecorder("race"),
		Metrics:  collectors,
		Wakes:    wakes,
		Statuses: &report.StatusWriter{Client: mgr.GetClient()},
		Leads:    func() bool { return true },
	}
	g.Expect(reconciler.SetupWithManager(t.Context(), mgr, 32)).To(Succeed())
	g.Expect(mgr.Add(pool)).To(Succeed())
	g.Expect(mgr.Add(watcher)).To(Succeed())
	var running errgroup.Group
	running.Go(func() error { return mgr.Start(t.Context()) })
	t.Cleanup(func() { g.Expect(running.Wait()).To(Succeed()) })
	g.Expect(mgr.GetCache().WaitForCacheSync(t.Context())).To(BeTrue())
}

// all passes on every wake, as the operator does.
func all(wakes *enqueue.Wakes) delivery { return wakes.Deliver }

// allButConfirmations passes on no wake that comes because a subscription begins: that it
// was confirmed, and that it is proven then that growth is announced.
func allButConfirmations(wakes *enqueue.Wakes) delivery {
	return func(w heard) {
		if w.Cause != coalesce.Confirmed && w.Cause != coalesce.Changed {
			wakes.Deliver(w)
		}
	}
}
