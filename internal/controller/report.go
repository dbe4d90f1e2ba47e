// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/report"
)

// passOf is what is told of a pass.
func passOf(sj *scaledjobv1.ScaledJob, seen observation, plan plan, done outcome) report.Pass {
	pass := report.Pass{
		Jobs:          seen.jobs,
		Created:       done.created,
		Queues:        queueDepths(sj, seen),
		QueueErr:      seen.queues.err,
		Rejected:      seen.queues.rejected,
		FailedKey:     seen.queues.failedKey,
		WithoutGroup:  seen.queues.withoutGroup(&sj.Spec),
		AtMax:         plan.atMax,
		Limit:         done.limit,
		Notifications: seen.events.Verdict,
		Template:      done.template,

		RolloutGeneration: seen.rollout,
	}
	if plan.known {
		pass.Depth, pass.Desired = new(seen.queues.depth()), &plan.desired
	}
	return pass
}

// queueDepths are the queues of the spec, with what they hold where that is known.
func queueDepths(sj *scaledjobv1.ScaledJob, seen observation) []scaledjobv1.QueueStatus {
	queues := sj.Spec.AllQueues()
	told := make([]scaledjobv1.QueueStatus, len(queues))
	for i, each := range queues {
		told[i].Name = each.Name
		if each.Stream != nil {
			told[i].ConsumerGroup = each.Stream.ConsumerGroup
		}
		if each.SortedSet != nil {
			told[i].Window = each.SortedSet.Window
		}
		if seen.queues.err == nil {
			told[i].Depth = new(outstanding(seen.queues.counts[i]))
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
