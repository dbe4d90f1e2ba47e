// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"miracle.dev/scaledjob-operator/internal/admission"
	"miracle.dev/scaledjob-operator/internal/controller"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/leadership"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/pages"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

const (
	// name is the reporting controller in events.
	name = "scaledjob-operator"
	// shutdownTimeout is how long running reconciles may take to end after the operator receives a signal to stop. It
	// is shorter than the terminationGracePeriodSeconds of the Deployment.
	shutdownTimeout = 30 * time.Second
	// readTimeout is the timeout of a read from the API server.
	readTimeout = 10 * time.Second
	// readyTimeout is how long the readiness probe waits for the caches.
	readyTimeout = time.Second
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=system,verbs=get;create;update
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// limited returns the configuration for clients that bound the memory which answers take, and the events that are sent
// at the same time.
func limited(cluster *rest.Config) *rest.Config {
	cluster = rest.CopyConfig(cluster)
	cluster.Wrap(pages.LimitResponseSize)
	cluster.Wrap(pages.MetadataOnly)
	cluster.Wrap(pages.LimitEvents)
	cluster.Wrap(pages.Prompt)
	cluster.WarningHandlerWithContext = admission.WarningHandler{}
	return cluster
}

// newWatcher returns the watcher of the queues, which delivers its wakes to the controller.
func newWatcher(
	pool *connection.Pool, directory *topology.Directory, wakes *enqueue.Wakes, recorder keyspace.Recorder, options options,
) *keyspace.Watcher {
	return keyspace.New(keyspace.Options{
		Pool:      pool,
		Directory: directory,
		Deliver:   wakes.Deliver,
		Configure: options.configureNotifications,
		Recorder:  recorder,
		Log:       ctrl.Log.WithName("keyspace"),
	})
}

// run runs the operator until ctx ends. It only connects the parts with each other.
func run(ctx context.Context, cluster *rest.Config, options options) error {
	cached := &controller.Cache{}
	cluster = limited(cluster)
	lease, err := newLease(cluster, options)
	if err != nil {
		return fmt.Errorf("preparing leader election: %w", err)
	}
	access, err := newMetricsAccess(options)
	if err != nil {
		return err
	}
	var synced atomic.Bool
	context.AfterFunc(ctx, func() { exitBeforeSync(&synced, os.Exit) })
	mgr, err := newManager(cluster, options, cached, lease, access.server)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if met, err := awaitCluster(ctx, mgr); !met {
		return err
	}
	pool := newPool(mgr.GetAPIReader(), options)
	directory := topology.New(pool, ctrl.Log.WithName("topology"))
	live, err := newReader(mgr.GetConfig(), readTimeout, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	wakes := enqueue.NewWakes()
	leads := func() bool { return lease == nil || lease.Held() }
	collectors := newCollectors(options, leads)
	collectors.Connections(pool.Open)
	watcher := newWatcher(pool, directory, wakes, collectors, options)
	reconciler := &controller.Reconciler{
		Cache:    cached,
		Client:   mgr.GetClient(),
		Live:     live,
		Servers:  directory,
		Queues:   queue.NewReader(pool, directory),
		Watcher:  watcher,
		Gate:     jobcontrol.NewGate(mgr.GetClient(), live, &cached.Stores, options.namespaces),
		Recorder: mgr.GetEventRecorder(name),
		Metrics:  collectors,
		Statuses: &report.StatusWriter{Client: mgr.GetClient()},
		Wakes:    wakes,
		Leads:    leads,

		FallbackInterval: options.fallbackInterval,
	}
	if err := reconciler.SetupWithManager(ctx, mgr, options.workers); err != nil {
		return err
	}
	for _, runnable := range []manager.Runnable{pool, directory, watcher, whenSynced(mgr, &cached.Stores, &synced)} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	if err := errors.Join(access.addTo(mgr), addProbes(mgr, lease)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newCollectors registers the metrics.
func newCollectors(options options, leads func() bool) *metrics.Metrics {
	collectors := metrics.New(ctrlmetrics.Registry)
	if !options.metricsQueues {
		collectors.WithoutQueues()
	}
	collectors.Process(ctrlmetrics.Registry, version, leads)
	ctrlmetrics.Registry = collectors.With(ctrlmetrics.Registry)
	return collectors
}

// exitBeforeSync ends the process with 0 unless the caches have synced. Until then nothing runs that has to end in
// order: no reconcile, and no election. The manager would not end: neither its creation nor its wait for the caches can
// be canceled, and that wait may last forever, for example without the permission to list ScaledJobs.
func exitBeforeSync(synced *atomic.Bool, exit func(code int)) {
	if !synced.Load() {
		ctrl.Log.Info("stopping before the caches have synced")
		exit(0)
	}
}

// newReader returns a reader whose requests end after some time, so that none of them holds up a worker for longer.
func newReader(cluster *rest.Config, timeout time.Duration, options client.Options) (client.Reader, error) {
	cluster = rest.CopyConfig(cluster)
	cluster.Timeout = timeout
	reader, err := client.New(cluster, options)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return reader, nil
}

func newManager(
	cluster *rest.Config, options options, cached *controller.Cache, lease *leadership.Lease,
	metricsOptions metricsserver.Options,
) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scaledjob.AddToScheme(scheme)
	// pages.MetadataOnly asks for metadata: the answer to a delete if the object stays, for example because of a
	// finalizer.
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	managerOptions := ctrl.Options{
		Scheme:                  scheme,
		Cache:                   cached.Options(options.namespaces, ctrl.Log.WithName("cache")),
		Metrics:                 metricsOptions,
		HealthProbeBindAddress:  options.probeAddress,
		PprofBindAddress:        options.profileAddress,
		GracefulShutdownTimeout: new(shutdownTimeout),
	}
	electBy(lease, options.election, &managerOptions)
	return ctrl.NewManager(cluster, managerOptions)
}

// whenSynced notes that the caches have synced. It stops the operator if the cache of Jobs does not report its resource
// version.
func whenSynced(mgr ctrl.Manager, stores *jobcontrol.Stores, synced *atomic.Bool) manager.Runnable {
	return onEveryReplica(func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return nil
		}
		synced.Store(true)
		return stores.Check()
	})
}

// onEveryReplica is a runnable that also runs on standby replicas.
type onEveryReplica func(ctx context.Context) error

func (f onEveryReplica) Start(ctx context.Context) error { return f(ctx) }

func (onEveryReplica) NeedLeaderElection() bool { return false }

// addProbes adds a liveness probe that succeeds while the process responds, and a readiness probe that waits for the
// caches, and until the Lease can be read. Neither depends on Redis or on leadership: restarting the operator helps
// with neither an outage of Redis nor being a standby replica.
func addProbes(mgr ctrl.Manager, lease *leadership.Lease) error {
	synced := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), readyTimeout)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches have not synced yet")
		}
		if lease != nil && !lease.Reached() {
			return errors.New("the Lease was not read yet")
		}
		return nil
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the liveness probe: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", synced); err != nil {
		return fmt.Errorf("adding the readiness probe: %w", err)
	}
	return nil
}
