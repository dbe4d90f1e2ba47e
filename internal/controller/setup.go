// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// reconcileTimeout is the timeout of a reconcile, for an API server that does not answer. It leaves time for the
// creates of a reconcile even if they time out one after the other.
const reconcileTimeout = time.Minute

// takeoverTimeout is how long the list of the Jobs of previous leaders may take. If it takes longer, the process
// exits and is restarted.
const takeoverTimeout = 10 * time.Minute

// SetupWithManager adds the controller to the manager. workers is the maximum number of ScaledJobs reconciled at the
// same time.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	r.denied.Interval = deniedInterval
	// Request these caches here, so that a standby replica fills them too. Otherwise they would start with the
	// controller, which runs on the leader only.
	for _, object := range []client.Object{&scaledjob.ScaledJob{}, &batchv1.Job{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("caching a %T: %w", object, err)
		}
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("scaledjob").
		For(&scaledjob.ScaledJob{}, builder.WithPredicates(enqueue.SpecChanged())).
		// Like Owns, but events do not bypass the backoff after errors.
		Watches(&batchv1.Job{}, enqueue.JobHandler(r.countFinished, r.memories.freed), builder.WithPredicates(enqueue.JobChanged())).
		WatchesRawSource(r.Wakes.Source()).
		WatchesRawSource(r.Gate.Takeover()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             enqueue.RateLimiter(),
			NewQueue:                enqueue.NewQueue(workers, r.Metrics.Parked),
			CacheSyncTimeout:        takeoverTimeout,
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	return nil
}

// countFinished counts a finished Job in the metrics.
func (r *Reconciler) countFinished(owner types.NamespacedName, job *batchv1.Job) {
	r.Metrics.Finished(owner, jobs.Succeeded(job))
}
