// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// observation is all that a pass goes by.
type observation struct {
	// jobs are the Jobs that the ScaledJob controls.
	jobs jobs.Census
	// unanswered are creates of which it is not known whether they made a Job.
	unanswered []jobcontrol.Unanswered
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
	if seen.rollout, err = lastRollout(ctx, r.Live, sj, mem.status.Latest(sj)); err != nil {
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

// queues are what was seen of the queues of a spec.
type queues struct {
	// counts are what they hold, in the order of the spec. They mean nothing if err, which says why they could not be read, is not nil.
	counts []queue.Count
	err    *failure.Error
	// rejected is why the server does not take what the Secrets hold now, though it could be read with what they held before.
	rejected *failure.Error
	// failedKey is the one of several keys that could not be read. It is empty if there is none, or no other.
	failedKey string
}

// read reads what the queues hold.
func (r *Reconciler) read(ctx context.Context, namespace string, spec *scaledjobv1.ScaledJobSpec) queues {
	source, err := scaledjob.Source(namespace, spec, spec.AllQueues())
	if err != nil {
		return queues{err: failure.Classify(err)}
	}
	counts, err := r.Queues.Observe(ctx, source)
	seen := queues{counts: counts, err: failure.Classify(err), rejected: r.Servers.Rejected(source.Endpoint)}
	if failed, ok := errors.AsType[*queue.KeyError](err); ok && len(source.Queues) > 1 {
		seen.failedKey = failed.Key
	}
	return seen
}

// compare tells the watcher what each key holds, but for those of which messages fall due without an event, or could not all be counted. It
// returns whether growth of one turned out to be unannounced.
func (r *Reconciler) compare(
	id types.NamespacedName, spec *scaledjobv1.ScaledJobSpec, counts []queue.Count, began time.Time,
) (missed bool) {
	depths, silent := map[string]int64{}, map[string]bool{}
	for i, each := range spec.AllQueues() {
		depths[each.Name] += outstanding(counts[i])
		silent[each.Name] = silent[each.Name] || counts[i].Partial || scaledjob.GrowsUnannounced(each)
	}
	for name, depth := range depths {
		if !silent[name] && r.Watcher.Observed(id, name, depth, began) {
			missed = true
		}
	}
	return missed
}

// outstanding is how many messages of a queue wait or are being worked on.
func outstanding(count queue.Count) int64 {
	return count.Waiting + min(count.InProgress, math.MaxInt64-count.Waiting)
}

// depth is how many messages are outstanding in all of them.
func (q *queues) depth() int64 {
	var depth int64
	for _, count := range q.counts {
		depth += min(outstanding(count), math.MaxInt64-depth)
	}
	return depth
}

// partial says that there may be more messages, which could not be counted.
func (q *queues) partial() bool {
	for _, count := range q.counts {
		if count.Partial {
			return true
		}
	}
	return false
}

// nextDue is when the next message falls due by itself; zero if none does.
func (q *queues) nextDue() time.Time {
	var next time.Time
	for _, count := range q.counts {
		next = earliest(next, count.NextDue)
	}
	return next
}

// progress is another whenever the group of a stream was given messages, or has acknowledged some.
func (q *queues) progress() string {
	var all strings.Builder
	for _, count := range q.counts {
		all.WriteString(count.Progress + " ")
	}
	return all.String()
}

// withoutGroup is a stream that has no such consumer group, and nil if there is none.
func (q *queues) withoutGroup(spec *scaledjobv1.ScaledJobSpec) *scaledjobv1.Queue {
	for i, count := range q.counts {
		if count.GroupMissing {
			return &spec.AllQueues()[i]
		}
	}
	return nil
}

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
