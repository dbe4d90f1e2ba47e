// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// observation is the complete input of a decision.
type observation struct {
	// before is the status that the last reconcile computed, even if it was not written yet.
	before *scaledjobv1.ScaledJobStatus
	// jobs are the owned Jobs.
	jobs jobs.Owned
	// unanswered are the creates that ended without an answer, so that it is unknown whether they created a Job.
	unanswered []jobcontrol.Unanswered
	// claimed is the number of Jobs that have taken their messages, if the strategy needs it. nextClaim is when the
	// next Job will count as claimed; zero if none will.
	claimed   int
	nextClaim time.Time
	// waiting are the active Jobs that have had no ready Pod for long. nextWaiting is when the next Job will be one of
	// them; zero if none will.
	waiting     jobs.Waiting
	nextWaiting time.Time
	// unadmitted is true if all active Jobs have been suspended for long. nextUnadmitted is when they will have been; zero
	// if not all are suspended.
	unadmitted     bool
	nextUnadmitted time.Time
	// queues is the content of the queues of the spec.
	queues queues
	// overdue is true if messages have waited for maxWaitSeconds. nextOverdue is when they will have; zero if that does
	// not matter.
	overdue     bool
	nextOverdue time.Time
	// events is the state of the keyspace notifications. missed is true if a queue grew and no notification arrived.
	events keyspace.State
	missed bool
	// templateHash is the hash of the template.
	templateHash string
}

// pending is the number of active Jobs without a ready Pod. It counts creates whose result is unknown.
func (o *observation) pending() int64 { return int64(o.jobs.Pending() + len(o.unanswered)) }

// queues is the result of reading the queues of a spec.
type queues struct {
	// counts has one entry per queue, in the order of the spec. It is only valid if err, the cause of a failed read, is
	// nil.
	counts queue.Counts
	err    *failure.Error
	// rejected is the error with which Redis rejects the current values of the Secrets, while connections made with the
	// previous values still work; nil if it accepts them.
	rejected *failure.Error
	// replica means that the server is a replica, so that the depth may be old.
	replica bool
	// failedKey is the key that could not be read. It is empty if there is none, or if the spec has only one key.
	failedKey string
}

// observe counts the owned Jobs and then reads the queues. It reads the queues last: workers may take messages in the
// meantime, and a depth from before the count would lead to surplus Jobs. A failed read is part of the observation.
// The reconcile ends only if the API server or the cache can't answer, or if the cache does not show all Jobs that were
// created; then no decision is possible. serverErr is why no Redis server can be used; nil if one can.
func (r *Reconciler) observe(ctx context.Context, t *target, serverErr error) (observation, *stop) {
	synced, err := r.Gate.Synced(ctx, t.sj.UID)
	if err != nil {
		return observation{}, r.fail(t.sj, err)
	}
	if !synced {
		return observation{}, stopFor(staleRetry, enqueue.PriorityNormal)
	}
	owned, err := r.Cache.Owned(t.sj.Namespace, t.sj.UID)
	if err != nil {
		return observation{}, r.fail(t.sj, err)
	}
	seen := observation{
		before:       t.mem.status.Latest(t.sj),
		jobs:         jobs.Classify(owned, t.sj.UID),
		templateHash: t.template.Hash,
	}
	seen.unanswered = r.Gate.Observe(t.sj.UID, &seen.jobs)
	seen.claimed, seen.nextClaim = t.mem.observeReadiness(t.sj, seen.jobs.Active)
	now := time.Now()
	seen.waiting, seen.nextWaiting = t.mem.readiness.Waiting(seen.jobs.Active, seen.templateHash, now)
	seen.unadmitted, seen.nextUnadmitted = t.mem.observeSuspended(&seen.jobs, now)
	if notified := r.Watcher.Acknowledge(keyspace.ID(t.key())); t.mem.notified.IsZero() {
		t.mem.notified = notified
	}
	t.mem.restoreAges(t)
	if serverErr != nil {
		seen.queues.err = failure.Classify(serverErr)
		seen.events.Reason = verify.ReasonUnreachable
		return seen, nil
	}
	r.observeQueues(ctx, t, &seen)
	return seen, nil
}

// observeReadiness records which of the active Jobs have a ready Pod. It returns how many of them have taken their
// messages, and when the next Job will count as claimed. Both are zero for strategies that do not need them.
func (m *memory) observeReadiness(sj *scaledjobv1.ScaledJob, active []*batchv1.Job) (claimed int, next time.Time) {
	now, strategy := time.Now(), &sj.Spec.ScalingStrategy
	m.readiness.Observe(active, now)
	if !scaling.Strategy(strategy.Type).CountsClaimed() {
		return 0, time.Time{}
	}
	return m.readiness.Claimed(strategy.ClaimGrace(), now)
}

// admissionTimeout is how long all active Jobs may be suspended before the status says so. A controller that admits
// Jobs suspends each one for a moment.
const admissionTimeout = 5 * time.Second

// observeSuspended records since when all active Jobs have been suspended. It returns whether that is long ago, and
// otherwise when it will be; zero if not all are suspended.
func (m *memory) observeSuspended(owned *jobs.Owned, now time.Time) (long bool, next time.Time) {
	switch all := len(owned.Active) > 0 && owned.Suspended() == len(owned.Active); {
	case !all:
		m.suspendedSince = time.Time{}
		return false, time.Time{}
	case m.suspendedSince.IsZero():
		m.suspendedSince = now
	}
	if until := m.suspendedSince.Add(admissionTimeout); now.Before(until) {
		return false, until
	}
	return true, time.Time{}
}

// observeQueues reads the queues and compares their depths with the notifications.
func (r *Reconciler) observeQueues(ctx context.Context, t *target, seen *observation) {
	began := time.Now()
	seen.queues = r.read(ctx, t.spec.Source)
	if seen.queues.err == nil {
		r.Metrics.Read(time.Since(began))
		seen.missed = r.compare(t, seen.queues.counts, began)
		now := time.Now()
		t.mem.observeAges(t, seen.queues.counts, now)
		seen.overdue, seen.nextOverdue = t.mem.observeWait(t.sj.Spec.MaxWait(), &t.spec, *seen, now)
	}
	seen.events = r.Watcher.State(keyspace.ID(t.key()))
}

// read reads the queues.
func (r *Reconciler) read(ctx context.Context, source queue.Source) queues {
	counts, err := r.Queues.Observe(ctx, source)
	seen := queues{
		counts: counts, err: failure.Classify(err),
		rejected: r.Servers.Rejected(source.Endpoint), replica: r.Servers.Replica(source.Endpoint),
	}
	if failed, ok := errors.AsType[*queue.KeyError](err); ok && len(source.Queues) > 1 {
		seen.failedKey = failed.Key
	}
	return seen
}

// compare passes the depth of each key to the watcher, except for keys whose messages become due without an event and
// keys that were counted only in part. It reports whether a key grew without a notification.
func (r *Reconciler) compare(t *target, counts queue.Counts, began time.Time) (missed bool) {
	depths, silent := map[string]int64{}, map[string]bool{}
	for i, each := range t.spec.Queues {
		depths[each.Name] += counts[i].Outstanding()
		silent[each.Name] = silent[each.Name] || counts[i].Partial || scaledjob.GrowsUnannounced(each)
	}
	for name, depth := range depths {
		if !silent[name] && r.Watcher.Observed(keyspace.ID(t.key()), name, depth, began) {
			missed = true
		}
	}
	return missed
}

// withoutGroup returns the first stream that lacks its consumer group, or nil.
func (q *queues) withoutGroup(asked []scaledjobv1.Queue) *scaledjobv1.Queue {
	return q.first(asked, func(count queue.Count) bool { return count.GroupMissing })
}

// trimmed returns the first stream with pending entries that it has lost, or nil.
func (q *queues) trimmed(asked []scaledjobv1.Queue) *scaledjobv1.Queue {
	return q.first(asked, func(count queue.Count) bool { return count.Trimmed })
}

// first returns the first queue whose count is so, or nil.
func (q *queues) first(asked []scaledjobv1.Queue, isSo func(queue.Count) bool) *scaledjobv1.Queue {
	if i := slices.IndexFunc(q.counts, isSo); i >= 0 {
		return &asked[i]
	}
	return nil
}
