// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/requests"
)

// reportMalformed tells once that the spec is of another form than the CRD's, as one that was stored under an older CRD may be. Without
// knowing what it asks for, nothing is listened to, created or pruned. The API server may refuse to write any status of such an object:
// then the event and the log tell of it alone.
func (r *Reconciler) reportMalformed(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, cause error) (ctrl.Result, error) {
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	before := mem.latest(sj)
	mem.computed = report.Malformed(sj, before, cause)
	if !equality.Semantic.DeepEqual(before, mem.computed) {
		ctrl.LoggerFrom(ctx).Error(cause, "the spec is not of the form that the CRD has, so that nothing is done for it")
		r.emit(sj, report.Events(before, mem.computed)...)
	}
	now := time.Now()
	if mem.writing.Wait(now) == 0 && !equality.Semantic.DeepEqual(mem.stored(sj), mem.computed) {
		err := r.applyStatus(ctx, sj, mem.computed)
		mem.writing.Note(err, now)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("the status that says so can't be written", "cause", err.Error())
		} else {
			mem.written = mem.computed
		}
	}
	after := jitter(sj.Spec.PollingInterval())
	if wait := mem.writing.Wait(now); wait > 0 {
		after = min(after, wait)
	}
	return requests.After(after, requests.PriorityResync), nil
}

// dropStatus removes a status of another form than the CRD's, over which no other could be applied.
func (r *Reconciler) dropStatus(ctx context.Context, sj *scaledjobv1.ScaledJob) error {
	err := r.Client.Status().Patch(ctx, identity(sj), client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))
	if err != nil {
		return fmt.Errorf("dropping a status that can't be read: %w", err)
	}
	return nil
}
