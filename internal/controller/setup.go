// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// passTimeout ends a pass whose API server does not answer. It leaves room for the creates of a pass, one after the other timing out.
const passTimeout = time.Minute

// patientShare is how many workers there are to one that may wait long for creates.
const patientShare = 4

// SetupWithManager adds the controller to the manager. workers is how many ScaledJobs are reconciled at the same time.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	r.templates = jobcontrol.NewDryRunner(r.Client)
	r.patience = semaphore.NewWeighted(int64(max(1, workers/patientShare)))
	// A standby fills these caches too, which otherwise only the controller would ask for.
	for _, object := range []client.Object{&scaledjob.ScaledJob{}, &batchv1.Job{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("caching a %T: %w", object, err)
		}
	}
	promote := func(ctx context.Context) error {
		r.deadlines.Promote(ctx, r.Wakes)
		return nil
	}
	if err := mgr.Add(manager.RunnableFunc(promote)); err != nil {
		return fmt.Errorf("adding the search for overdue ScaledJobs: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("scaledjob").
		For(&scaledjob.ScaledJob{}, builder.WithPredicates(enqueue.SpecChanged())).
		// What Owns would do, but within the backoff after errors.
		Watches(&batchv1.Job{}, enqueue.JobHandler(r.countFinished), builder.WithPredicates(enqueue.JobChanged())).
		WatchesRawSource(r.Wakes.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   passTimeout,
			RateLimiter:             enqueue.RateLimiter(),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	return nil
}

// countFinished counts a Job that has finished.
func (r *Reconciler) countFinished(owner types.NamespacedName, job *batchv1.Job) {
	r.Metrics.Finished(owner, jobs.Succeeded(job))
}

// CacheOptions are those of the cache that the controller reads from: Jobs are slimmed, and their stores are handed to the gate. They are
// not selected by label, since a label that somebody removes would make a running Job disappear. No namespaces means all.
func CacheOptions(stores *jobcontrol.Stores, namespaces []string) cache.Options {
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		NewInformer:                 stores.NewInformer,
		ByObject:                    map[client.Object]cache.ByObject{&batchv1.Job{}: {Transform: jobs.Slim}},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}
