// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/report"
)

const (
	// fieldOwner is the name under which the status is applied.
	fieldOwner = client.FieldOwner("scaledjob-operator")
	// statusInterval is the least time between two writes of a status in which only numbers changed.
	statusInterval = time.Second
	// statusBurst is how many writes may come at once where conditions turn. On average it is one per statusInterval there too.
	statusBurst = 2
)

// passOf is what is told of a pass.
func passOf(sj *scaledjobv1.ScaledJob, seen observation, plan plan, done outcome) report.Pass {
	pass := report.Pass{
		Jobs:          seen.jobs,
		Created:       done.created,
		Queues:        queueDepths(sj, seen),
		QueueErr:      seen.queueErr,
		GroupMissing:  seen.groupMissing,
		AtMax:         plan.atMax,
		Limit:         done.limit,
		Notifications: seen.events.Verdict,
		Template:      done.template,

		RolloutGeneration: seen.rollout,
	}
	if plan.known {
		pass.Depth, pass.Desired = &seen.depth, &plan.desired
	}
	return pass
}

// queueDepths are the queues of the spec, with what they hold where that is known.
func queueDepths(sj *scaledjobv1.ScaledJob, seen observation) []scaledjobv1.QueueStatus {
	queues := sj.Spec.AllQueues()
	told := make([]scaledjobv1.QueueStatus, len(queues))
	for i, each := range queues {
		told[i].Name = each.Name
		if seen.queueErr == nil {
			told[i].Depth = new(seen.queues[i].Outstanding())
		}
	}
	return told
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
	if wait := max(statusWait(before, status, mem, more, now), mem.writing.Wait(now)); wait > 0 {
		return wait, nil
	}
	err = r.applyStatus(ctx, sj, status)
	mem.writing.Note(err, now)
	if err != nil {
		return mem.writing.Wait(now), err
	}
	r.emit(sj, report.Events(before, status)...)
	mem.writes.AllowN(now, 1)
	mem.written, mem.writtenAt, mem.changedAt = status, now, time.Time{}
	return 0, nil
}

// statusWait tells how long a changed status may wait until it is written. Where a condition turned, it does not wait, unless conditions have
// turned all the time. Where only numbers changed, it waits until the interval since the last write is over. A pass that is followed by
// another at once leaves it to that one, but not for ever.
func statusWait(before, status *scaledjobv1.ScaledJobStatus, mem *memory, more bool, now time.Time) time.Duration {
	if more {
		return max(0, statusInterval-now.Sub(mem.changedAt))
	}
	if report.Turned(before.Conditions, status.Conditions) {
		missing := max(0, 1-mem.writes.TokensAt(now))
		return time.Duration(missing * float64(statusInterval))
	}
	return max(0, statusInterval-now.Sub(mem.writtenAt))
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

// emit emits events that regard the ScaledJob. Its resourceVersion would make each one of its own, instead of one that happened again.
func (r *Reconciler) emit(sj *scaledjobv1.ScaledJob, all ...report.Event) {
	regarding := &corev1.ObjectReference{
		APIVersion: scaledjobv1.GroupVersion.String(),
		Kind:       "ScaledJob",
		Namespace:  sj.Namespace,
		Name:       sj.Name,
		UID:        sj.UID,
	}
	for _, event := range all {
		r.Recorder.Eventf(regarding, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
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
		Depths:    depthsByKey(status.Queues),
		Active:    status.ActiveJobs,
		Pending:   status.PendingJobs,
		Pausing:   report.Pausing(status),
		Events:    status.Mode == scaledjobv1.ModeEvents,
		LastEvent: seen.events.LastEvent,
		Missed:    seen.missed,
		Failed:    err != nil || (seen.queueErr != nil && !seen.queueErr.Busy()),
	}
	if plan.known {
		result.Read, result.Desired = true, &plan.desired
	}
	return result
}

// depthsByKey are the depths that are known. Two queues may be parts of the same key.
func depthsByKey(queues []scaledjobv1.QueueStatus) map[string]int64 {
	depths := map[string]int64{}
	for _, each := range queues {
		if each.Depth != nil {
			depths[each.Name] += *each.Depth
		}
	}
	return depths
}
