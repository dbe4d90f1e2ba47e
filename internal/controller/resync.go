// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"math/rand/v2"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/proof"
)

// How soon a pass comes again where no event would bring it sooner.
const (
	// staleRetry is for a Job cache that lags. The event of the awaited Job normally comes first.
	staleRetry = 200 * time.Millisecond
	// busyRetry is for an endpoint that is slow to answer somebody else, and for an API server that is slow to create Jobs of many others.
	busyRetry = 250 * time.Millisecond
	// unreadableRetry is for a depth that can't be read, and never later than half the polling interval.
	unreadableRetry = 10 * time.Second
	// moreRetry is for a pass that left something undone: at once, but behind others of its priority that wait already.
	moreRetry = time.Millisecond
	// resyncJitter spreads the resync by this part of the polling interval, both ways.
	resyncJitter = 0.1
	// fallbackReads is how many reads a second of one server the fallback may add up to.
	fallbackReads = 200
)

// next tells when the following pass is due: at once if this one stopped half-way, sooner than the resync if the depth could not be
// read, the status still has to be written, pruning is to be tried again, a pause of creating ends or the template waits for its check, and
// else at the resync.
func (r *Reconciler) next(
	sj *scaledjobv1.ScaledJob, mem *memory, seen observation, done outcome, statusWait time.Duration,
) ctrl.Result {
	if done.more {
		return requeue(moreRetry, priorityGrowth)
	}
	if seen.queueErr.Busy() || done.crowded {
		return requeue(jitter(busyRetry), priorityNormal)
	}
	interval := resyncInterval(sj, seen.events, r.FallbackInterval)
	if seen.queueErr != nil {
		interval = min(unreadableRetry, pollingInterval(sj)/2)
	}
	after := jitter(interval)
	if statusWait > 0 {
		after = min(after, statusWait)
	}
	if until, holds := mem.backoff.Holds(time.Now()); holds {
		after = min(after, max(time.Until(until), moreRetry))
	}
	if wait := mem.pruning.wait(time.Now()); wait > 0 {
		after = min(after, wait)
	}
	if !mem.templateTurn.IsZero() {
		after = min(after, max(time.Until(mem.templateTurn), moreRetry))
	}
	return requeue(after, priorityResync)
}

// resyncInterval is how long after a pass the next one comes if nothing calls for it sooner. Without proof that growth is announced it
// is the fallback, unless that is 0. This is stretched where many ScaledJobs share a server, and never longer than the user asks for.
func resyncInterval(sj *scaledjobv1.ScaledJob, known keyspace.State, fallback time.Duration) time.Duration {
	interval := pollingInterval(sj)
	proven := known.Reason == proof.ReasonSubscribed
	if proven || fallback == 0 || sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		return interval
	}
	share := time.Duration(known.Watchers) * time.Second / fallbackReads
	return min(interval, max(fallback, share))
}

// requeue asks for another pass. The priority is always said: a request would otherwise keep that of the event which brought it.
func requeue(after time.Duration, priority int) ctrl.Result {
	return ctrl.Result{RequeueAfter: after, Priority: &priority}
}

func pollingInterval(sj *scaledjobv1.ScaledJob) time.Duration {
	return time.Duration(sj.Spec.PollingIntervalSecondsOrDefault()) * time.Second
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - resyncJitter + 2*resyncJitter*rand.Float64()))
}
