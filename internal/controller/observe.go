// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/jobtemplate"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/rediserror"
	"miracle.dev/scaledjob-operator/internal/scaling"
	"miracle.dev/scaledjob-operator/internal/translate"
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
	// queues are what the queues of the spec hold, and depth is how many messages are outstanding in them. Both mean nothing if queueErr,
	// which says why they could not be read, is not nil.
	queues   []scaling.Queue
	depth    int64
	queueErr *rediserror.Error
	// failedKey is the one of several keys that could not be read. It is empty if there is none, or no other.
	failedKey string
	// groupless is a stream that has no such consumer group, nil if there is none; nextDue is when the next message falls due by itself, zero
	// if none does.
	groupless *scaledjobv1.Queue
	nextDue   time.Time
	// progress says how far the groups of streams have come, and partial that there may be more messages than depth, which could not be counted.
	progress string
	partial  bool
	// events is what is known about the notifications of the queues, and missed says that growth of one turned out to be unannounced.
	events keyspace.State
	missed bool
	// templateHash is that of the template, and rollout the generation of the spec since which Jobs of another are to be replaced; 0 if none.
	templateHash string
	rollout      int64
}

// observe counts the Jobs and then reads the depth. The depth comes last, since messages may be taken in the meantime, and a depth
// from before would ask for Jobs that nobody needs. A depth that can't be read is part of what was seen; the error is for Jobs that
// can't be listed, and then nothing can be decided at all.
func (r *Reconciler) observe(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory) (observation, error) {
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
	key, queues := client.ObjectKeyFromObject(sj), sj.Spec.AllQueues()
	began := time.Now()
	counts, err := r.read(ctx, sj, queues)
	if failed, ok := errors.AsType[*queue.KeyError](err); ok && len(queues) > 1 {
		seen.failedKey = failed.Key
	}
	if seen.queueErr = rediserror.Classify(err); err == nil {
		r.Metrics.Read(time.Since(began))
		seen.queues = translate.Contents(queues, counts)
		seen.depth = scaling.Observation{Queues: seen.queues}.Outstanding()
		for i, count := range counts {
			if count.GroupMissing {
				seen.groupless = &queues[i]
			}
			seen.nextDue = earliest(seen.nextDue, count.NextDue)
			seen.progress += count.Progress + " "
			seen.partial = seen.partial || count.Partial
		}
		seen.missed = r.compare(key, queues, counts, began)
	}
	seen.events = r.Watcher.State(key)
}

// compare tells the watcher what each key holds, but for those of which messages fall due without an event, or could not all be counted. It
// returns whether growth of one turned out to be unannounced.
func (r *Reconciler) compare(id types.NamespacedName, queues []scaledjobv1.Queue, counts []queue.Count, began time.Time) (missed bool) {
	depths, silent := map[string]int64{}, map[string]bool{}
	for i, each := range queues {
		depths[each.Name] += counts[i].Waiting + counts[i].InProgress
		silent[each.Name] = silent[each.Name] || counts[i].Partial || translate.GrowsUnannounced(each)
	}
	for name, depth := range depths {
		if !silent[name] && r.Watcher.Observed(id, name, depth, began) {
			missed = true
		}
	}
	return missed
}

func (r *Reconciler) read(
	ctx context.Context, sj *scaledjobv1.ScaledJob, queues []scaledjobv1.Queue,
) ([]queue.Count, error) {
	source, err := translate.Source(&sj.Spec, queues)
	if err != nil {
		return nil, &rediserror.Error{
			Reason:  rediserror.ReasonUnreachable,
			Message: "redisAddress is not of the form host:port. Correct it.",
			Err:     err,
		}
	}
	return r.Queues.Observe(ctx, source)
}

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
