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
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// How soon a ScaledJob is reconciled again where no event would bring it sooner.
const (
	// staleRetry is for a Job cache that lags. The event of the awaited Job normally comes first.
	staleRetry = 200 * time.Millisecond
	// busyRetry is for an endpoint that is slow to answer somebody else, and for an API server that is slow to create Jobs of many others.
	busyRetry = 250 * time.Millisecond
	// unreadableRetry is for a depth that can't be read, and never later than half the polling interval.
	unreadableRetry = 10 * time.Second
	// moreRetry is for a reconcile that left something undone: at once, but behind others of its priority that wait already.
	moreRetry = time.Millisecond
	// dueSpacing is the least time between two reconciles for what falls due by itself, and idleDueSpacing while no Job can be created: as
	// between wake-ups.
	dueSpacing     = 25 * time.Millisecond
	idleDueSpacing = time.Second
	// resyncJitter spreads the resync by this part of the polling interval, both ways.
	resyncJitter = 0.1
	// fallbackReads is how many reads a second of one server the fallback may add up to.
	fallbackReads = 200
)

// requeue says when the next reconcile is due: at once if this one stopped half-way, sooner than the resync if the depth could not be read
// or something is to be done at a time that is known, and else at the resync. The watcher is told how often to wake meanwhile. An error of creating is returned, for the work queue to retry.
func (r *Reconciler) requeue(t *target, seen observation, plan plan, done outcome, statusWait time.Duration) (ctrl.Result, error) {
	now := time.Now()
	idle := isIdle(&t.asks, seen, plan, done)
	r.Watcher.SetIdle(keyspace.ID(t.key()), idle)
	if done.err != nil {
		return enqueue.After(0, enqueue.PriorityNormal), done.err
	}
	if done.unfinished() {
		return enqueue.After(moreRetry, enqueue.PriorityGrowth), nil
	}
	if seen.queues.err.Busy() || done.crowded {
		return enqueue.After(jitter(busyRetry), enqueue.PriorityNormal), nil
	}
	interval := resyncInterval(t.sj, seen.events, r.FallbackInterval)
	if seen.queues.err != nil {
		interval = min(unreadableRetry, t.sj.Spec.PollingInterval()/2)
	}
	after := min(jitter(interval), untilChore(t.mem, statusWait, now))
	if due := untilDue(seen, idle, now); due <= after {
		return enqueue.After(due, enqueue.PriorityGrowth), nil
	}
	return enqueue.After(after, enqueue.PriorityResync), nil
}

// never is longer than any wait.
const never = time.Duration(math.MaxInt64)

// until is how long it is until then, and never where then is zero. It is not less than least.
func until(then, now time.Time, least time.Duration) time.Duration {
	if then.IsZero() {
		return never
	}
	return max(then.Sub(now), least)
}

// untilChore is how long it is until the status can be written, pruning is to be tried again, a pause of creating ends, or the template may
// be checked, whichever comes first.
func untilChore(mem *memory, statusWait time.Duration, now time.Time) time.Duration {
	pauseEnd, _ := mem.pause.Holds(now)
	if !pauseEnd.After(now) {
		pauseEnd = time.Time{}
	}
	wait := min(until(pauseEnd, now, moreRetry), until(mem.template.Turn, now, moreRetry))
	for _, other := range []time.Duration{statusWait, mem.deletes.Wait(now)} {
		if other > 0 {
			wait = min(wait, other)
		}
	}
	return wait
}

// untilDue is how long it is until more Jobs may be due although nobody pushes: a message falls due by itself, or a Job is taken for one that
// has taken its messages. Idle says that no Job could be created.
func untilDue(seen observation, idle bool, now time.Time) time.Duration {
	spacing := dueSpacing
	if idle {
		spacing = idleDueSpacing
	}
	return min(until(seen.queues.counts.NextDue(), now, spacing), until(seen.nextClaim, now, spacing))
}

// resyncInterval is how long after a reconcile the next one comes if nothing calls for it sooner. Without proof that growth is announced it
// is the fallback, unless that is 0. This is stretched where many ScaledJobs share a server, and never longer than the user asks for.
func resyncInterval(sj *scaledjobv1.ScaledJob, known keyspace.State, fallback time.Duration) time.Duration {
	interval := sj.Spec.PollingInterval()
	proven := known.Reason == verify.ReasonSubscribed
	if proven || fallback == 0 || sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		return interval
	}
	share := time.Duration(known.Watchers) * time.Second / fallbackReads
	return min(interval, max(fallback, share))
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - resyncJitter + 2*resyncJitter*rand.Float64()))
}
