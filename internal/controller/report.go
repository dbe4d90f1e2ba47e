// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/metrics"
	"miracle.dev/scaledjob-operator/internal/report"
)

// report writes the result of the reconcile to the metrics, the events and the status. It returns how long the status
// write is delayed; 0 if it is not.
func (r *Reconciler) report(
	ctx context.Context, t *target, seen observation, plan plan, created created, checked checked, deleted deleted,
) (statusWait time.Duration) {
	now, more := time.Now(), workLeft(created, checked, deleted)
	r.observeOldest(ctx, t, seen, now)
	status := report.Status(t.sj, seen.before, reconciled(t, seen, plan, created, checked, now), now)
	if report.Refreshed(seen.before, status) {
		t.mem.refreshed = now
	}
	if plan.known && !more && created.err == nil {
		t.mem.notified = time.Time{}
	}
	noteActions(t, created, deleted)
	replaced, statusWait, statusErr := r.Statuses.Write(ctx, t.sj, &t.mem.status, status, more)
	if replaced != nil {
		r.emit(t.sj, during(t.reconcile, report.Events(replaced, status)))
		// The Jobs were counted before the API server has answered.
		t.mem.ownerDoubted = t.mem.ownerDoubted && !t.mem.status.Alive()
	}
	if statusErr != nil || !t.mem.status.Waits() {
		r.emit(t.sj, t.mem.pendingEvents)
		t.mem.pendingEvents = nil
	}
	r.logFailures(ctx, deleted.Err, statusErr)
	failed := errors.Join(created.err, created.refusal, deleted.Err, statusErr)
	r.Metrics.Observe(t.key(), r.sample(t, status, seen, plan, created, failed))
	return statusWait
}

// workLeft reports whether creates or deletes are left that can be sent immediately.
func workLeft(created created, checked checked, deleted deleted) bool {
	return created.more || checked.again || deleted.More
}

// noteActions keeps the events about what the reconcile has done.
func noteActions(t *target, created created, deleted deleted) {
	if created.jobs > 0 {
		t.note(report.CreatedJobs())
	}
	if deleted.forQuota {
		t.note(report.DeletedHistory(created.refused.Name))
	}
	if deleted.Unfinished {
		t.note(report.ReplacedJobs())
	}
}

// stillAfter is how long no message must have left the queue until the status mentions it.
const stillAfter = 10 * time.Minute

// refreshInterval is the minimum time between two changes of the words of the API server in the status.
const refreshInterval = time.Minute

// deniedInterval is the minimum time between two log lines that the operator may not write statuses. They concern all
// ScaledJobs.
const deniedInterval = time.Minute

// logFailures logs why Jobs were not deleted or the status was not written.
func (r *Reconciler) logFailures(ctx context.Context, pruneErr, statusErr error) {
	log := ctrl.LoggerFrom(ctx)
	if apierrors.IsForbidden(statusErr) {
		r.denied.Do(func() {
			log.Error(statusErr, "the operator may not write statuses, so that they are outdated: allow its "+
				"ServiceAccount to patch scaledjobs/status")
		})
		statusErr = nil
	}
	if err := errors.Join(pruneErr, statusErr); err != nil {
		log.Error(err, "failed to delete Jobs or to write the status; will retry")
	}
}

// reconciled converts the result of a reconcile into the input of package report.
func reconciled(
	t *target, seen observation, plan plan, created created, checked checked, now time.Time,
) report.Reconciled {
	result := report.Reconciled{
		Jobs:          seen.jobs,
		Created:       created.jobs,
		Queues:        queueStatuses(t, seen.queues),
		QueueErr:      seen.queues.err,
		Rejected:      seen.queues.rejected,
		Replica:       seen.queues.replica,
		FailedKey:     seen.queues.failedKey,
		WithoutGroup:  seen.queues.withoutGroup(t.spec.Queues),
		Trimmed:       seen.queues.trimmed(t.spec.Queues),
		AtMax:         plan.atMax,
		AtMaxPending:  plan.atMaxPending,
		Limit:         t.mem.limit(now),
		PausedUntil:   t.mem.pausedUntil(now),
		Consumed:      t.mem.pause.Consumed(),
		Orphans:       orphans(t, seen),
		Due:           plan.known && int(plan.desired) > len(seen.jobs.Active)+created.jobs,
		Failures:      t.mem.failures,
		Answer:        t.mem.answer,
		NotReady:      seen.waiting,
		Unadmitted:    seen.unadmitted,
		Overdue:       seen.overdue,
		Still:         plan.known && now.Sub(t.mem.pause.StillSince()) >= stillAfter,
		Refresh:       now.Sub(t.mem.refreshed) >= refreshInterval,
		Notifications: seen.events.Verdict,
		Tracking:      seen.events.Tracking,
		Template:      checked.template,
	}
	if plan.known {
		result.Depth, result.Desired = new(seen.queues.counts.Outstanding()), &plan.desired
		if t.spec.Policy.Strategy.CountsClaimed() {
			result.Claimed = new(int32(seen.claimed))
		}
	}
	return result
}

// orphans returns the messages in progress that no unfinished Job can hold.
func orphans(t *target, seen observation) (found report.Orphans) {
	known := t.mem.pause.Orphaned()
	if known == 0 || seen.queues.err != nil {
		return found
	}
	var most, threshold int64
	for i, count := range seen.queues.counts {
		if count.InProgress > most {
			most, found.Queue = count.InProgress, &t.spec.Queues[i]
			threshold = max(1, *found.Queue.Threshold)
		}
	}
	found.Messages, found.Probed = most, len(t.mem.pause.Probes()) > 0
	if threshold > 0 && known <= most/threshold {
		found.Messages = known * threshold
	}
	return found
}

// queueStatuses returns the status of each queue of the spec, with its depth if that is known.
func queueStatuses(t *target, seen queues) []scaledjobv1.QueueStatus {
	statuses := make([]scaledjobv1.QueueStatus, len(t.spec.Queues))
	for i, each := range t.spec.Queues {
		statuses[i].Name = each.Name
		if each.Stream != nil {
			statuses[i].ConsumerGroup = each.Stream.ConsumerGroup
		}
		if each.SortedSet != nil {
			statuses[i].Window = each.SortedSet.Window
		}
		if seen.err == nil {
			statuses[i].Depth = new(seen.counts[i].Outstanding())
			if each.Stream != nil {
				statuses[i].PendingEntries = new(seen.counts[i].InProgress)
			}
		}
		t.mem.setAge(&statuses[i], i)
	}
	return statuses
}

// sample converts the result of the reconcile into metrics.
func (r *Reconciler) sample(
	t *target, status *scaledjobv1.ScaledJobStatus, seen observation, plan plan, created created, err error,
) metrics.Sample {
	result := metrics.Sample{
		Queue:     t.sj.Spec.QueueName,
		Queues:    queueSamples(status.Queues),
		Active:    status.ActiveJobs,
		Pending:   status.PendingJobs,
		Suspended: status.SuspendedJobs,
		Max:       t.spec.Policy.MaxReplicas,
		Pausing:   report.Pausing(status),
		Suspend:   t.sj.Spec.Suspend,
		Mode:      string(status.Mode),
		LastEvent: seen.events.LastEvent,
		Missed:    seen.missed,
		RefusedBy: created.refusedBy(),

		Conditions:         conditionsOf(status),
		CertificatesExpire: r.Servers.CertificatesExpire(t.spec.Source.Endpoint),

		Failed: err != nil || (seen.queues.err != nil && !seen.queues.err.Busy()),
	}
	if plan.known {
		result.Read, result.Desired = true, &plan.desired
	}
	return result
}

// refusedBy returns who refused to create a Job; empty if none was refused.
func (c created) refusedBy() string {
	if c.refusal == nil {
		return ""
	}
	return cmp.Or(string(c.refused.By), "API server")
}

// conditionsOf returns the conditions of the status.
func conditionsOf(status *scaledjobv1.ScaledJobStatus) []metrics.Condition {
	all := make([]metrics.Condition, len(status.Conditions))
	for i, is := range status.Conditions {
		all[i] = metrics.Condition{Type: is.Type, Status: string(is.Status), Reason: is.Reason}
	}
	return all
}

// queueSamples returns the queues whose depth is known.
func queueSamples(queues []scaledjobv1.QueueStatus) []metrics.QueueSample {
	samples := make([]metrics.QueueSample, 0, len(queues))
	for _, each := range queues {
		if each.Depth == nil {
			continue
		}
		sample := metrics.QueueSample{Key: each.Name, Depth: *each.Depth}
		if since := each.NonEmptySince; since != nil {
			sample.NonEmptySince = since.Time
		}
		if oldest := each.OldestMessageTime; oldest != nil {
			sample.Oldest = oldest.Time
		}
		samples = append(samples, sample)
	}
	return samples
}
