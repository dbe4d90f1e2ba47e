// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/stored"
)

// CacheOptions are those of the cache that the controller reads from: Jobs are slimmed, and their stores are handed to the gate. They are
// not selected by label, since a label that somebody removes would make a running Job disappear. No namespaces means all.
func CacheOptions(stores *consistency.Stores, namespaces []string) cache.Options {
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		NewInformer:                 stores.NewInformer,
		ByObject:                    map[client.Object]cache.ByObject{&batchv1.Job{}: {Transform: slimJob}},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

// patientShare is how many workers there are to one that may wait long for creates.
const patientShare = 4

// SetupWithManager adds the controller to the manager. workers is how many ScaledJobs are reconciled at the same time.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	r.templates = rate.NewLimiter(templateChecksPerSecond, templateChecksPerSecond)
	r.patience = semaphore.NewWeighted(int64(max(1, workers/patientShare)))
	// A standby fills these caches too, which otherwise only the controller would ask for.
	for _, object := range []client.Object{&stored.ScaledJob{}, &batchv1.Job{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("caching a %T: %w", object, err)
		}
	}
	if err := mgr.Add(manager.RunnableFunc(r.promoteOverdue)); err != nil {
		return fmt.Errorf("adding the search for overdue ScaledJobs: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("scaledjob").
		For(&stored.ScaledJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// What Owns would do, but within the backoff after errors.
		Watches(&batchv1.Job{}, jobHandler(r.countFinished), builder.WithPredicates(jobChanged())).
		WatchesRawSource(source.TypedChannel(r.Wakes, wakeHandler())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   passTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
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

// slimJob leaves of a Job what is counted and sorted by, which is a third of it. A slimmed Job must never be written back.
func slimJob(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return object, nil
	}
	annotations := map[string]string{}
	for _, key := range []string{
		scaledjobv1.AnnotationOrdinal, scaledjobv1.AnnotationOrdinalFloor, scaledjobv1.AnnotationTemplateHash,
	} {
		if value, has := job.Annotations[key]; has {
			annotations[key] = value
		}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:              job.Name,
			Namespace:         job.Namespace,
			UID:               job.UID,
			ResourceVersion:   job.ResourceVersion,
			DeletionTimestamp: job.DeletionTimestamp,
			Annotations:       annotations,
			OwnerReferences:   job.OwnerReferences,
		},
		Status: batchv1.JobStatus{Conditions: job.Status.Conditions, Ready: job.Status.Ready},
	}, nil
}

// counts is all of a Job that a count depends on.
type counts struct {
	owner    types.UID
	finished bool
	ready    bool
	deleting bool
}

func countsOf(job *batchv1.Job) counts {
	return counts{
		owner:    jobs.ControllerUID(job),
		finished: jobs.Finished(job),
		ready:    job.Status.Ready != nil && *job.Status.Ready > 0,
		deleting: job.DeletionTimestamp != nil,
	}
}
