// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// reportMalformed tells once that the spec is of another form than the CRD's, as one that was stored under an older CRD may be. Without
// knowing what it asks for, nothing is listened to, created or pruned. The API server may refuse to write any status of such an object:
// then the event and the log tell of it alone.
func (r *Reconciler) reportMalformed(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, cause error) (ctrl.Result, error) {
	r.Metrics.Failed(client.ObjectKeyFromObject(sj), sj.Spec.QueueName)
	status := malformedStatus(sj, mem.latest(sj), cause)
	if !equality.Semantic.DeepEqual(mem.latest(sj), status) {
		ctrl.LoggerFrom(ctx).Error(cause, "the spec is not of the form that the CRD has, so that nothing is done for it")
		ready := apimeta.FindStatusCondition(status.Conditions, scaledjobv1.ConditionReady)
		r.event(sj, corev1.EventTypeWarning, ready.Reason, "ReadSpec", ready.Message)
		if err := r.applyStatus(ctx, sj, status); err != nil {
			ctrl.LoggerFrom(ctx).Info("the status that says so can't be written", "cause", err.Error())
		}
		mem.computed, mem.written = status, status
	}
	return requeue(jitter(pollingInterval(sj)), priorityResync), nil
}

// malformedStatus is the status before, but that it says what is wrong with the spec.
func malformedStatus(sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, cause error) *scaledjobv1.ScaledJobStatus {
	status := before.DeepCopy()
	status.ObservedGeneration = sj.Generation
	message := fmt.Sprintf("The spec is not of the form that the CRD has; it may have been stored under an older one. Correct it: %v.", cause)
	for _, is := range []metav1.Condition{
		{Type: scaledjobv1.ConditionReady, Status: metav1.ConditionFalse},
		{Type: scaledjobv1.ConditionStalled, Status: metav1.ConditionTrue},
	} {
		is.Reason, is.Message, is.ObservedGeneration = scaledjobv1.ReasonInvalidSpec, message, sj.Generation
		apimeta.SetStatusCondition(&status.Conditions, is)
	}
	return status
}

// dropStatus removes a status of another form than the CRD's, over which no other could be applied.
func (r *Reconciler) dropStatus(ctx context.Context, sj *scaledjobv1.ScaledJob) error {
	err := r.Client.Status().Patch(ctx, identity(sj), client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))
	if err != nil {
		return fmt.Errorf("dropping a status that can't be read: %w", err)
	}
	return nil
}
