// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/jobtemplate"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// observation is all that a pass goes by.
type observation struct {
	// jobs are the Jobs that the ScaledJob controls.
	jobs jobs.Census
	// unanswered are creates of which it is not known whether they made a Job.
	unanswered []consistency.Unanswered
	// claimed is how many Jobs have taken their messages, where the strategy asks for it, and nextClaim when the next one will be taken
	// for such; zero if none is about to.
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

// observe counts the Jobs and then reads the depth. The depth comes last, since messages may be taken in the meantime, and a depth
// from before would ask for Jobs that nobody needs. A depth that can't be read is part of what was seen; the error is for Jobs that
// can't be listed, and then nothing can be decided at all. ServerErr says why there is no server to read from.
func (r *Reconciler) observe(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory, serverErr error) (observation, error) {
	owned, err := r.Jobs.Owned(sj.Namespace, sj.UID)
	if err != nil {
		return observation{}, err
	}
	seen := observation{jobs: jobs.Take(owned, sj.UID)}
	seen.unanswered = r.Gate.Saw(sj.UID, &seen.jobs)
	seen.claimed, seen.nextClaim = mem.countClaims(sj, seen.jobs.Active)
	seen.templateHash = jobs.TemplateHash(&sj.Spec.JobTemplate)
	if seen.rollout, err = jobtemplate.LastRollout(ctx, r.Live, sj, mem.status.Latest(sj)); err != nil {
		return observation{}, err
	}
	if heard := r.Watcher.TakeNotified(client.ObjectKeyFromObject(sj)); mem.notified.IsZero() {
		mem.notified = heard
	}
	if serverErr != nil {
		seen.queues.err = failure.Classify(serverErr)
		seen.events.Reason = verify.ReasonUnreachable
		return seen, nil
	}
	r.observeQueues(ctx, sj, &seen)
	return seen, nil
}

// countClaims is how many of the Jobs have taken their messages, and when the next one will be taken for such, where the strategy asks for it.
func (m *memory) countClaims(sj *scaledjobv1.ScaledJob, active []*batchv1.Job) (claimed int, next time.Time) {
	strategy := &sj.Spec.ScalingStrategy
	if !scaling.Strategy(strategy.Type).CountsClaimed() {
		m.claims = nil
		return 0, time.Time{}
	}
	return m.claims.Count(active, strategy.ClaimGrace(), time.Now())
}

// observeQueues reads what the queues hold, and has it compared with the notifications.
func (r *Reconciler) observeQueues(ctx context.Context, sj *scaledjobv1.ScaledJob, seen *observation) {
	key := client.ObjectKeyFromObject(sj)
	began := time.Now()
	seen.queues = r.read(ctx, sj.Namespace, &sj.Spec)
	if seen.queues.err == nil {
		r.Metrics.Read(time.Since(began))
		seen.missed = r.compare(key, &sj.Spec, seen.queues.counts, began)
	}
	seen.events = r.Watcher.State(key)
}
