// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// overdueAfter is after how many polling intervals without a pass a ScaledJob goes before all others.
const overdueAfter = 1.5

// load reads the ScaledJob from the cache, and what is remembered of it. A ScaledJob that is gone or going is forgotten, and one whose spec
// can't be read is reported. In both cases there is no target, and the reconcile ends with the result.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*target, ctrl.Result, error) {
	var found scaledjob.ScaledJob
	if err := r.Client.Get(ctx, key, &found); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(key)
			return nil, ctrl.Result{}, nil
		}
		return nil, enqueue.After(0, enqueue.PriorityNormal), err
	}
	sj := &found.ScaledJob
	if sj.DeletionTimestamp != nil || r.memories.ofAnother(sj) {
		r.forget(key)
	}
	if sj.DeletionTimestamp != nil {
		return nil, ctrl.Result{}, nil
	}
	mem := r.memories.of(sj)
	r.deadlines.Expect(key, time.Now().Add(time.Duration(overdueAfter*float64(sj.Spec.PollingInterval()))))
	if found.StatusErr != nil && !mem.status.Written() {
		if err := r.statuses().Drop(ctx, sj); err != nil && found.SpecErr == nil {
			result, err := r.fail(sj, err)
			return nil, result, err
		}
	}
	if found.SpecErr != nil {
		return nil, r.reportMalformed(ctx, sj, mem, found.SpecErr), nil
	}
	return &target{sj: sj, asks: scaledjob.Resolve(sj), mem: mem}, ctrl.Result{}, nil
}

// forget drops all that is kept of a ScaledJob that is gone or going.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.unsubscribe(key)
	r.Metrics.Forget(key)
	r.deadlines.Forget(key)
	if uid, known := r.memories.drop(key); known {
		r.Gate.Forget(uid)
	}
}

// reportMalformed tells once that the spec is of another form than the CRD's, as one that was stored under an older CRD may be. Without
// knowing what it asks for, nothing is listened to, created or pruned. The API server may refuse to write any status of such an object:
// then the event and the log tell of it alone.
func (r *Reconciler) reportMalformed(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, cause error,
) ctrl.Result {
	r.unsubscribe(client.ObjectKeyFromObject(sj))
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	before := mem.status.Latest(sj)
	status := report.Malformed(sj, before, cause)
	if !equality.Semantic.DeepEqual(before, status) {
		ctrl.LoggerFrom(ctx).Error(cause, "the spec is not of the form that the CRD has, so that nothing is done for it")
		r.emit(sj, report.Events(before, status)...)
	}
	wait, err := r.statuses().WriteAtOnce(ctx, sj, &mem.status, status)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the status that says so can't be written", "cause", err.Error())
	}
	after := jitter(sj.Spec.PollingInterval())
	if wait > 0 {
		after = min(after, wait)
	}
	return enqueue.After(after, enqueue.PriorityResync)
}
