// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// load reads the ScaledJob from the cache, and its memory. If the ScaledJob does not exist or is being deleted, load
// removes all state that the operator keeps for it. If its spec can't be used, load reports that. In both cases the
// target is nil, and the reconcile ends with the returned result.
func (r *Reconciler) load(
	ctx context.Context, key types.NamespacedName, pass *enqueue.Pass,
) (*target, ctrl.Result, error) {
	found, err := r.Cache.ScaledJob(key)
	if err != nil {
		return nil, enqueue.After(0, enqueue.PriorityNormal), err
	}
	if found == nil {
		r.forget(key)
		return nil, ctrl.Result{}, nil
	}
	sj := &found.ScaledJob
	if sj.DeletionTimestamp != nil || r.memories.ofAnother(sj) {
		r.forget(key)
	}
	if sj.DeletionTimestamp != nil {
		return nil, ctrl.Result{}, nil
	}
	mem := r.memories.of(sj)
	if found.StatusErr != nil && !mem.status.Written() {
		err := r.statuses(pass).Drop(ctx, sj)
		if errors.Is(err, report.ErrNoPlace) {
			return nil, enqueue.After(jitter(sj.Spec.PollingInterval()), enqueue.PriorityResync), nil
		}
		if err != nil && found.SpecErr == nil {
			result, err := r.fail(sj, err)
			return nil, result, err
		}
	}
	if result, malformed := r.reportIfMalformed(ctx, found, mem, pass); malformed {
		return nil, result, nil
	}
	return &target{sj: sj, asks: scaledjob.Resolve(sj), mem: mem, pass: pass, template: found.Template}, ctrl.Result{}, nil
}

// forget removes all state that the operator keeps for a ScaledJob that was deleted or is being deleted.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.unsubscribe(key)
	r.Metrics.Forget(key)
	if uid, known := r.memories.drop(key); known {
		r.Gate.Forget(uid)
	}
}

// reportIfMalformed reports, once per cause, a spec that does not match the types of the operator, for example because
// it was stored under an older CRD, or has fields of a newer one. Such a ScaledJob has no subscription, and none of its
// Jobs are created or pruned. If the API server rejects the status of such an object, only the event and the log report
// the problem.
func (r *Reconciler) reportIfMalformed(
	ctx context.Context, found *scaledjob.ScaledJob, mem *memory, pass *enqueue.Pass,
) (result ctrl.Result, malformed bool) {
	sj, cause := &found.ScaledJob, found.SpecErr
	if cause == nil {
		return ctrl.Result{}, false
	}
	mem.readiness = nil // Nobody observes the Jobs meanwhile.
	r.unsubscribe(client.ObjectKeyFromObject(sj))
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	before := mem.status.Latest(sj)
	status := report.Malformed(sj, before, cause)
	if !report.SameStatus(before, status) {
		ctrl.LoggerFrom(ctx).Error(cause, "the spec can't be used; nothing is done until it is corrected")
		r.emit(sj, append(mem.untold, report.Events(before, status)...)...)
		mem.untold = nil
	}
	wait, err := r.statuses(pass).WriteAtOnce(ctx, sj, &mem.status, status)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("failed to write the status that reports the invalid spec", "cause", err.Error())
	}
	after := jitter(sj.Spec.PollingInterval())
	if wait > 0 {
		after = min(after, wait)
	}
	return enqueue.After(after, enqueue.PriorityResync), true
}
