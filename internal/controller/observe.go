// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// observation is all that a reconcile goes by.
type observation struct {
	// before is the status as the last reconcile left it, whether or not it was written yet.
	before *scaledjobv1.ScaledJobStatus
	// jobs are the Jobs that the ScaledJob controls.
	jobs jobs.Owned
	// unanswered are creates of which it is not known whether they made a Job.
	unanswered []jobcontrol.Unanswered
	// claimed is how many Jobs have taken their messages, where the strategy asks for it, and nextClaim when the next one will be counted
	// among them; zero if none is about to.
	claimed   int
	nextClaim time.Time
	// queues is what was seen of the queues of the spec.
	queues queues
	// events is what is known about the notifications of the queues, and missed says that growth of one turned out to be unannounced.
	events keyspace.State
	missed bool
	// templateHash is that of the template, and rollout the generation of the spec since which Jobs of another are to be replaced; 0 if none.
	templateHash string
	rollout      int64
}

// queues are what was seen of the queues of a spec.
type queues struct {
	// counts are what they hold, in the order of the spec. They mean nothing if err, which says why they could not be read, is not nil.
	counts queue.Counts
	err    *failure.Error
	// rejected is why the server rejects what the Secrets hold now, though it could be read with what they held before.
	rejected *failure.Error
	// failedKey is the one of several keys that could not be read. It is empty if there is none, or no other.
	failedKey string
}

// observe counts the Jobs and then reads the depth. The depth comes last: messages may be taken in the meantime, and an older depth would
// ask for Jobs that nobody needs. A depth that can't be read is part of the observation. The error is for Jobs that can't be listed: then
// nothing can be decided at all. serverErr says why there is no server to read from.
func (r *Reconciler) observe(ctx context.Context, t *target, serverErr error) (observation, error) {
	owned, err := r.Jobs.Owned(t.sj.Namespace, t.sj.UID)
	if err != nil {
		return observation{}, err
	}
	seen := observation{
		before: t.mem.status.Latest(t.sj), jobs: jobs.Classify(owned, t.sj.UID), templateHash: jobs.TemplateHash(&t.sj.Spec.JobTemplate),
	}
	seen.unanswered = r.Gate.Saw(t.sj.UID, &seen.jobs)
	seen.claimed, seen.nextClaim = t.mem.countClaims(t.sj, seen.jobs.Active)
	if seen.rollout, err = lastRollout(ctx, r.Live, t.sj, seen.before, seen.templateHash); err != nil {
		return observation{}, err
	}
	if notified := r.Watcher.TakeNotified(keyspace.ID(t.key())); t.mem.notified.IsZero() {
		t.mem.notified = notified
	}
	if serverErr != nil {
		seen.queues.err = failure.Classify(serverErr)
		seen.events.Reason = verify.ReasonUnreachable
		return seen, nil
	}
	r.observeQueues(ctx, t, &seen)
	return seen, nil
}

// countClaims is how many of the Jobs have taken their messages, and when the next one will be counted among them, where the strategy asks
// for it.
func (m *memory) countClaims(sj *scaledjobv1.ScaledJob, active []*batchv1.Job) (claimed int, next time.Time) {
	strategy := &sj.Spec.ScalingStrategy
	if !scaling.Strategy(strategy.Type).CountsClaimed() {
		m.claims = nil
		return 0, time.Time{}
	}
	return m.claims.Count(active, strategy.ClaimGrace(), time.Now())
}

// observeQueues reads what the queues hold, and compares it with the notifications.
func (r *Reconciler) observeQueues(ctx context.Context, t *target, seen *observation) {
	began := time.Now()
	seen.queues = r.read(ctx, t.asks.Source)
	if seen.queues.err == nil {
		r.Metrics.Read(time.Since(began))
		seen.missed = r.compare(t, seen.queues.counts, began)
	}
	seen.events = r.Watcher.State(keyspace.ID(t.key()))
}

// read reads what the queues hold.
func (r *Reconciler) read(ctx context.Context, source queue.Source) queues {
	counts, err := r.Queues.Observe(ctx, source)
	seen := queues{counts: counts, err: failure.Classify(err), rejected: r.Servers.Rejected(source.Endpoint)}
	if failed, ok := errors.AsType[*queue.KeyError](err); ok && len(source.Queues) > 1 {
		seen.failedKey = failed.Key
	}
	return seen
}

// compare tells the watcher what each key holds, except keys of which messages fall due without an event, or could not all be counted. It
// returns whether growth of one turned out to be unannounced.
func (r *Reconciler) compare(t *target, counts queue.Counts, began time.Time) (missed bool) {
	depths, silent := map[string]int64{}, map[string]bool{}
	for i, each := range t.asks.Queues {
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

// withoutGroup is a stream that has no such consumer group, and nil if there is none.
func (q *queues) withoutGroup(asked []scaledjobv1.Queue) *scaledjobv1.Queue {
	for i, count := range q.counts {
		if count.GroupMissing {
			return &asked[i]
		}
	}
	return nil
}
