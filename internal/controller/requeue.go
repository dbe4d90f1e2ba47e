// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"math"
	"math/rand/v2"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/keyspace"
)

// Delays until the next reconcile if no event causes one earlier.
const (
	// staleRetry is for a Job cache that lags behind. The event of the missing Job usually comes first.
	staleRetry = 200 * time.Millisecond
	// leaseRetry is for a Lease that was not renewed in time.
	leaseRetry = time.Second
	// busyRetry is for a Redis server that is busy with calls of other ScaledJobs.
	busyRetry = 250 * time.Millisecond
	// grownRetry is for a queue that has grown, on such a server. Later retries come when it has waited for this fraction
	// of the time longer.
	grownRetry    = 50 * time.Millisecond
	grownFraction = 0.25
	// unreadableRetry is for queues that can't be read. It is capped at half the polling interval.
	unreadableRetry = 10 * time.Second
	// moreRetry is for a reconcile that has more work to do. The short delay puts the request behind those that are due
	// already.
	moreRetry = time.Millisecond
	// dueSpacing is the minimum time between two reconciles for messages or Jobs that become due with time.
	// idleDueSpacing replaces it while no Job can be created. Both equal the intervals between wake-ups of the watcher.
	dueSpacing     = 25 * time.Millisecond
	idleDueSpacing = time.Second
	// resyncJitter is the fraction of the polling interval by which the resync is randomly moved earlier or later.
	resyncJitter = 0.1
	// resyncSlots is the number of moments in an interval at which resyncs are due.
	resyncSlots = 300
	// fallbackReads is the maximum total rate of fallback reads on one Redis server, per second, and of the retries while
	// it is busy.
	fallbackReads = 200
)

// requeue returns when to reconcile next: immediately if work is left, before the resync if the depth could not be
// read, or something becomes due or may change at a known time, and otherwise at the resync. It returns an error of a
// create, so that the work queue retries with backoff. It also sets how often the watcher wakes the ScaledJob until
// then.
func (r *Reconciler) requeue(
	t *target, seen observation, plan plan, created created, checked checked, deleted deleted, statusWait time.Duration,
) (ctrl.Result, error) {
	now := time.Now()
	idle := isIdle(&t.spec, seen, plan, created)
	r.Watcher.SetIdle(keyspace.ID(t.key()), idle)
	if created.err != nil {
		return enqueue.After(0, enqueue.PriorityNormal), created.err
	}
	if workLeft(created, checked, deleted) {
		return enqueue.After(moreRetry, enqueue.PriorityGrowth), nil
	}
	interval := resyncInterval(t.sj, seen.events, r.FallbackInterval)
	if seen.queues.err != nil {
		interval = min(unreadableRetry, t.sj.Spec.PollingInterval()/2)
	}
	priority := enqueue.PriorityResync
	if seen.queues.err.Busy() {
		interval = min(interval, max(busyRetry, share(seen.events)))
		if grown := t.mem.notified; !grown.IsZero() {
			after := max(grownRetry, time.Duration(float64(now.Sub(grown))*grownFraction))
			interval, priority = min(interval, after), enqueue.PriorityNormal
		}
	}
	chore := untilChore(t.mem, plan.held && !t.sj.Spec.Suspend, statusWait, now)
	after := min(untilResync(interval, now), chore, deleted.untilPruned(),
		until(seen.nextWaiting, now, idleDueSpacing), until(seen.nextUnadmitted, now, idleDueSpacing))
	if changes := until(seen.events.ValidUntil, now, dueSpacing); changes < after {
		after, priority = changes, enqueue.PriorityNormal
	}
	if due := untilDue(seen, idle, now); due <= after {
		return enqueue.After(due, enqueue.PriorityGrowth), nil
	}
	return enqueue.After(after, priority), nil
}

// untilResync returns the time until the next resync: the interval with jitter, moved to a moment at which the resyncs
// of other ScaledJobs are due too. Reconciles that come together cost less CPU time than as many that come one by one.
func untilResync(interval time.Duration, now time.Time) time.Duration {
	after, slot := jitter(interval), interval/resyncSlots
	then := now.Add(after).Round(0)
	after -= then.Sub(then.Truncate(slot))
	if after < time.Duration(float64(interval)*(1-resyncJitter)) {
		after += slot
	}
	return after
}

// never stands for no deadline.
const never = time.Duration(math.MaxInt64)

// until returns the time from now to then, at least least. It returns never if then is zero.
func until(then, now time.Time, least time.Duration) time.Duration {
	if then.IsZero() {
		return never
	}
	return max(then.Sub(now), least)
}

// untilChore returns the time until the earliest of: the delayed status write, the retry of failed deletes, the turn to
// try again because a quota may have room, and the next create that a pause allows. If held is true, it held back Jobs
// in this reconcile, and may have ended since.
func untilChore(mem *memory, held bool, statusWait time.Duration, now time.Time) time.Duration {
	next := mem.pausedUntil(now)
	wait := min(until(next, now, moreRetry), until(mem.quotaTurn, now, moreRetry))
	if held && next.IsZero() {
		wait = moreRetry
	}
	for _, other := range []time.Duration{statusWait, mem.deletes.Wait(now)} {
		if other > 0 {
			wait = min(wait, other)
		}
	}
	return wait
}

// untilDue returns the time until more Jobs may be due without a new message: a message in a sorted set becomes due, or
// a Job counts as claimed, or messages have waited for maxWaitSeconds. idle is true if no Job could be created.
func untilDue(seen observation, idle bool, now time.Time) time.Duration {
	spacing := dueSpacing
	if idle {
		spacing = idleDueSpacing
	}
	return min(
		until(seen.queues.counts.NextDue(), now, spacing), until(seen.nextClaim, now, spacing), until(seen.nextOverdue, now, spacing))
}

// resyncInterval returns the time between two reconciles without events: the polling interval, or, while it is not
// proven that Redis reports changes, the fallback interval unless that is 0. The fallback is longer if many
// ScaledJobs share a server, but never longer than the polling interval.
func resyncInterval(sj *scaledjobv1.ScaledJob, known keyspace.State, fallback time.Duration) time.Duration {
	interval := sj.Spec.PollingInterval()
	if known.Announced() || fallback == 0 || sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		return interval
	}
	return min(interval, max(fallback, share(known)))
}

// share returns the time between two reads of a queue if all ScaledJobs on the server take turns.
func share(known keyspace.State) time.Duration {
	return time.Duration(known.Watchers) * time.Second / fallbackReads
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - resyncJitter + 2*resyncJitter*rand.Float64()))
}
