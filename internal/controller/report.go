// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/report"
)

// report tells the metrics, the events and the status what the reconcile saw and did. It returns how long the status may wait
// to be written; 0 if it does not.
func (r *Reconciler) report(ctx context.Context, t *target, seen observation, plan plan, done outcome) (statusWait time.Duration) {
	now := time.Now()
	status := report.Status(t.sj, seen.before, reconciled(t, seen, plan, done, now), now)
	if plan.known && !done.unfinished() && !done.crowded && done.err == nil {
		t.mem.notified = time.Time{}
	}
	if done.created > 0 {
		r.emit(t.sj, report.CreatedJobs())
	}
	if done.pruned.Unfinished {
		r.emit(t.sj, report.ReplacedJobs())
	}
	if done.createFailing {
		r.emit(t.sj, report.JobCreateFailed())
	}
	replaced, statusWait, statusErr := r.statuses().Write(ctx, t.sj, &t.mem.status, status, done.unfinished())
	if replaced != nil {
		r.emit(t.sj, report.Events(replaced, status)...)
	}
	chores := errors.Join(done.pruned.Err, statusErr)
	if chores != nil {
		ctrl.LoggerFrom(ctx).Error(chores, "deleting Jobs or writing the status failed, and is tried again")
	}
	r.Metrics.Observe(t.key(), sample(t, status, seen, plan, errors.Join(done.err, done.refusal, chores)))
	return statusWait
}

// reconciled is what is reported of a reconcile.
func reconciled(t *target, seen observation, plan plan, done outcome, now time.Time) report.Reconciled {
	result := report.Reconciled{
		Jobs:          seen.jobs,
		Created:       done.created,
		Queues:        queueStatuses(t.asks.Queues, seen.queues),
		QueueErr:      seen.queues.err,
		Rejected:      seen.queues.rejected,
		FailedKey:     seen.queues.failedKey,
		WithoutGroup:  seen.queues.withoutGroup(t.asks.Queues),
		AtMax:         plan.atMax,
		Limit:         t.mem.pause.Reason(now),
		Notifications: seen.events.Verdict,
		Template:      done.template,

		RolloutGeneration: seen.rollout,
	}
	if plan.known {
		result.Depth, result.Desired = new(seen.queues.counts.Outstanding()), &plan.desired
	}
	return result
}

// queueStatuses are the queues of the spec, with what they hold where that is known.
func queueStatuses(asked []scaledjobv1.Queue, seen queues) []scaledjobv1.QueueStatus {
	told := make([]scaledjobv1.QueueStatus, len(asked))
	for i, each := range asked {
		told[i].Name = each.Name
		if each.Stream != nil {
			told[i].ConsumerGroup = each.Stream.ConsumerGroup
		}
		if each.SortedSet != nil {
			told[i].Window = each.SortedSet.Window
		}
		if seen.err == nil {
			told[i].Depth = new(seen.counts[i].Outstanding())
		}
	}
	return told
}

// statuses writes statuses.
func (r *Reconciler) statuses() report.StatusWriter { return report.StatusWriter{Client: r.Client} }

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

// sample is what the metrics say of the reconcile.
func sample(
	t *target, status *scaledjobv1.ScaledJobStatus, seen observation, plan plan, err error,
) metrics.Sample {
	result := metrics.Sample{
		Queue:     t.sj.Spec.QueueName,
		Depths:    depthsByKey(status.Queues),
		Active:    status.ActiveJobs,
		Pending:   status.PendingJobs,
		Pausing:   report.Pausing(status),
		Events:    status.Mode == scaledjobv1.ModeEvents,
		LastEvent: seen.events.LastEvent,
		Missed:    seen.missed,
		Failed:    err != nil || (seen.queues.err != nil && !seen.queues.err.Busy()),
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
