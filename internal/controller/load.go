// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// load reads the ScaledJob from the cache, and its memory. If the ScaledJob does not exist or is being deleted, load
// removes all state that the operator keeps for it. If its spec can't be used, load reports that. In both cases the
// reconcile ends, as it does while another replica may be the leader.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*target, *stop) {
	found, err := r.Cache.ScaledJob(key)
	if err != nil {
		return nil, &stop{enqueue.After(0, enqueue.PriorityNormal), err}
	}
	if found == nil {
		r.forget(key)
		return nil, &stop{}
	}
	sj := &found.ScaledJob
	if sj.DeletionTimestamp != nil || r.memories.ofAnother(sj) {
		r.forget(key)
	}
	if sj.DeletionTimestamp != nil {
		return nil, &stop{}
	}
	if !r.Leads() {
		return nil, stopFor(jitter(leaseRetry), enqueue.PriorityResync)
	}
	mem := r.memories.of(sj)
	if found.StatusErr != nil && !mem.status.Written() {
		if err := r.Statuses.Drop(ctx, sj); err != nil && found.SpecErr == nil {
			return nil, r.fail(sj, err)
		}
	}
	if found.SpecErr != nil {
		return nil, r.reportMalformed(ctx, found, mem)
	}
	return &target{
		sj: sj, spec: scaledjob.Resolve(sj), mem: mem, template: found.Template,
		reconcile: controller.ReconcileIDFromContext(ctx),
	}, nil
}

// forget removes all state that the operator keeps for a ScaledJob that was deleted or is being deleted.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.unsubscribe(key)
	r.Metrics.Forget(key)
	if uid, known := r.memories.drop(key); known {
		r.Gate.Forget(uid)
	}
}

// reportMalformed reports, once per cause, a spec that does not match the types of the operator, for example because it
// was stored under an older CRD, or has fields of a newer one. Such a ScaledJob has no subscription, and none of its
// Jobs are created or pruned. If the API server rejects the status of such an object, only the event and the log report
// the problem.
func (r *Reconciler) reportMalformed(ctx context.Context, found *scaledjob.ScaledJob, mem *memory) *stop {
	sj := &found.ScaledJob
	mem.readiness = nil // Nobody observes the Jobs meanwhile.
	r.memories.unname(sj.Name, mem)
	r.unsubscribe(client.ObjectKeyFromObject(sj))
	before := mem.status.Latest(sj)
	status := report.Malformed(sj, before, found.SpecErr)
	r.Metrics.Malformed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName, sj.Spec.Suspend, conditionsOf(status))
	if !report.SameStatus(before, status) {
		ctrl.LoggerFrom(ctx).Error(found.SpecErr, "the spec can't be used; nothing is done until it is corrected")
		r.emit(sj, append(mem.pendingEvents, during(controller.ReconcileIDFromContext(ctx), report.Events(before, status))...))
		mem.pendingEvents = nil
	}
	wait, err := r.Statuses.WriteAtOnce(ctx, sj, &mem.status, status)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("failed to write the status that reports the invalid spec", "cause", err.Error())
	}
	after := jitter(sj.Spec.PollingInterval())
	if wait > 0 {
		after = min(after, wait)
	}
	return stopFor(after, enqueue.PriorityResync)
}
