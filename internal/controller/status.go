// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/metrics"
)

const (
	// fieldOwner is the name under which the status is applied.
	fieldOwner = client.FieldOwner("scaledjob-operator")
	// statusInterval is the least time between two writes of a status in which only numbers changed.
	statusInterval = time.Second
)

// computeStatus is the whole status after a pass. What the pass could not see stays as it was, as long as the spec does.
func computeStatus(
	sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, seen observation, plan plan, done outcome, now time.Time,
) *scaledjobv1.ScaledJobStatus {
	status := before.DeepCopy()
	status.ObservedGeneration = sj.Generation
	status.ActiveJobs = int32(len(seen.jobs.Active) + done.created)
	status.PendingJobs = int32(seen.jobs.Pending() + done.created)
	status.SucceededJobs = int32(len(seen.jobs.Succeeded))
	status.FailedJobs = int32(len(seen.jobs.Failed))
	if before.ObservedGeneration != sj.Generation {
		// They may be those of another queue.
		status.QueueDepth, status.DesiredJobs = nil, nil
	}
	if plan.known {
		status.QueueDepth = &seen.depth
		status.DesiredJobs = &plan.desired
	}
	if done.created > 0 {
		// Whole seconds, as the API server keeps them.
		at := metav1.NewTime(now).Rfc3339Copy()
		status.LastScaleTime = &at
	}
	setConditions(sj, status, seen, plan, done)
	slices.SortStableFunc(status.Conditions, inOrder)
	return status
}

// writeStatus applies the status if it is time to, and emits the events of what turned. Otherwise it tells how long that may wait.
func (r *Reconciler) writeStatus(
	ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, status *scaledjobv1.ScaledJobStatus, more bool,
) (wait time.Duration, err error) {
	now := time.Now()
	before := mem.stored(sj)
	if equality.Semantic.DeepEqual(before, status) {
		mem.changedAt = time.Time{}
		return 0, nil
	}
	if mem.changedAt.IsZero() {
		mem.changedAt = now
	}
	if wait := statusWait(before, status, mem, more, now); wait > 0 {
		return wait, nil
	}
	if err := r.applyStatus(ctx, sj, status); err != nil {
		return 0, err
	}
	r.announceConditions(sj, before, status)
	mem.written, mem.writtenAt, mem.changedAt = status, now, time.Time{}
	return 0, nil
}

// statusWait tells how long a changed status may wait until it is written: not at all where a condition turned or nothing was written
// for a while, and else until the interval is over. A pass that is followed by another at once leaves it to that one, but not for ever.
func statusWait(before, status *scaledjobv1.ScaledJobStatus, mem *memory, more bool, now time.Time) time.Duration {
	if more {
		return max(0, statusInterval-now.Sub(mem.changedAt))
	}
	if conditionsTurned(before.Conditions, status.Conditions) {
		return 0
	}
	return max(0, statusInterval-now.Sub(mem.writtenAt))
}

// conditionsTurned says whether any condition came, went, or says something else than before in other than its words.
func conditionsTurned(before, after []metav1.Condition) bool {
	return !slices.EqualFunc(before, after, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
	})
}

// applyStatus sends the whole status. It names the UID, so that a ScaledJob that took the place of this one is left alone.
func (r *Reconciler) applyStatus(ctx context.Context, sj *scaledjobv1.ScaledJob, status *scaledjobv1.ScaledJobStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	intent := identity(sj)
	intent.Object["status"] = content
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), fieldOwner, client.ForceOwnership)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("applying the status: %w", err)
}

// identity names a ScaledJob, and holds nothing else of it.
func identity(sj *scaledjobv1.ScaledJob) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
	object.SetNamespace(sj.Namespace)
	object.SetName(sj.Name)
	object.SetUID(sj.UID)
	return object
}

// sample is what the metrics say of the pass.
func sample(
	sj *scaledjobv1.ScaledJob, status *scaledjobv1.ScaledJobStatus, seen observation, plan plan, err error,
) metrics.Sample {
	result := metrics.Sample{
		Queue:     sj.Spec.QueueName,
		Active:    status.ActiveJobs,
		Pending:   status.PendingJobs,
		Pausing:   pauses[limitOf(status)] != "",
		Events:    status.Mode == scaledjobv1.ModeEvents,
		LastEvent: seen.events.LastEvent,
		Missed:    seen.missed,
		Failed:    err != nil || (seen.queueErr != nil && !seen.busy()),
	}
	if plan.known {
		result.Depth, result.Desired = &seen.depth, &plan.desired
	}
	return result
}
