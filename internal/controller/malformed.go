// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/report"
)

// reportMalformed tells once that the spec is of another form than the CRD's, as one that was stored under an older CRD may be. Without
// knowing what it asks for, nothing is listened to, created or pruned. The API server may refuse to write any status of such an object:
// then the event and the log tell of it alone.
func (r *Reconciler) reportMalformed(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, cause error) (ctrl.Result, error) {
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
	return enqueue.After(after, enqueue.PriorityResync), nil
}
