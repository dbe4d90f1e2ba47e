// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"maps"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// State is what is known about the events of the keys of an id.
type State struct {
	// Verdict says whether the growth of the keys is announced by notifications.
	verify.Verdict
	// Tracking says whether the server tells of changes because it tracks the keys.
	Tracking verify.Tracking
	// Watchers is how many ids watch keys of the same server.
	Watchers int
	// LastEvent is the time of the last growth event. LastEnd is the time of the last shrink event of a final key. They
	// are zero if there was none.
	LastEvent, LastEnd time.Time
	// Since is when the last subscription of the keys to change began or ended.
	Since time.Time
	// ValidUntil is when all this may change although nothing else happens. It is zero if it does not.
	ValidUntil time.Time
	// Unchanged is since when the server, which tracks the keys, has reported no change of any. It is zero if it would
	// not report the next one.
	Unchanged time.Time
}

// Announced reports whether it is proven that growth of the keys is announced, by either source.
func (s State) Announced() bool {
	return s.Reason == verify.ReasonSubscribed || s.Tracking == verify.Tracked
}

// State returns what is known about the events of the keys of an id, and chooses their source of events. It does not
// block. If the verdict changes later, other than by time, the id is woken.
func (w *Watcher) State(id ID) State {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok {
		return State{}
	}
	now := time.Now()
	w.relocate(id, watched, now)
	state := State{ValidUntil: w.judge(id, watched, now)}
	state.Verdict, state.Tracking = watched.reported, watched.tracking
	if len(watched.keys) > 0 {
		state.Watchers = len(w.users[watched.endpoint].ids)
	}
	if watched.on && watched.tracking == verify.Tracked {
		state.Unchanged = w.unchanged(watched)
	}
	if watched.trackingOnly {
		return state
	}
	for spot := range watched.spots() {
		subscribed := w.supervisors[spot.server].set.state(spot.key.channel())
		state.LastEvent = latest(state.LastEvent, subscribed.HeardAt)
		if spot.key.Final {
			state.LastEnd = latest(state.LastEnd, subscribed.ShrunkAt)
		}
		state.Since = latest(state.Since, subscribed.Since)
	}
	return state
}

// judge updates what is reported about the keys of an id, and chooses their source of events. It returns when that may
// change although nothing else happens.
func (w *Watcher) judge(id ID, watched *watch, now time.Time) (until time.Time) {
	verdict, until := w.verdict(watched, now)
	watched.reported = verdict
	until = verify.Earlier(until, w.choose(id, watched, now))
	tracking, holds := w.judgeTracking(watched, now)
	watched.tracking = tracking
	return verify.Earlier(verify.Earlier(until, holds), watched.leaves())
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Observed takes a depth of a key that was read from began until now. It reports whether this shows that an earlier
// growth was not announced, although the server's setting does not explain that. It does not block. Do not call it for
// keys that may grow without an event.
func (w *Watcher) Observed(id ID, key string, depth int64, began time.Time) (missed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok {
		return false
	}
	at := watched.index(key)
	if at < 0 {
		return false
	}
	its, now := watched.keys[at], time.Now()
	owner, known := watched.owner(at)
	if !known || watched.places != nil && watched.places[at].Importing != (auth.Endpoint{}) { // Two servers may have announced it.
		return false
	}
	if watched.on {
		known := w.trackers[database{owner, its.Database}].State(its.trackingKey(false))
		missed = watched.tracked.audits[at].Read(depth, began, now, known.Armed, time.Time{})
	}
	if watched.trackingOnly {
		return missed
	}
	server := w.supervisors[owner]
	subscribed, silentUntil := server.set.state(its.channel()), server.evidence.SilentUntil(its.Class, now)
	return watched.audits[at].Read(depth, began, now, subscribed, silentUntil) || missed
}

// verdict returns the verdict on the notifications of the keys of an id, and when it may change although nothing else
// happens. While there is no new one, that is the last reported verdict.
func (w *Watcher) verdict(watched *watch, now time.Time) (verdict verify.Verdict, until time.Time) {
	if watched.trackingOnly {
		return verify.Verdict{}, until
	}
	verdict = verify.Verdict{Reason: verify.ReasonSubscribed}
	located := 0
	for spot := range watched.spots() {
		if spot.before {
			continue
		}
		server := w.supervisors[spot.server]
		key := verify.Key{Class: spot.key.Class, Subscription: server.set.state(spot.key.channel()), Audit: &watched.audits[spot.index]}
		if spot.importing { // The audit is about the owner.
			key.Audit = &verify.Audit{}
		} else {
			located++
		}
		if verdict.Reason == verify.ReasonSubscribed {
			var holds time.Time
			verdict, holds = verify.Judge(server.evidence, []verify.Key{key}, maps.Keys(server.classes), now)
			until = verify.Earlier(until, holds)
		}
	}
	if located < len(watched.keys) {
		return watched.unlocated(now)
	}
	if verdict.Reason == verify.Undecided {
		verdict = watched.reported
	}
	return verdict, until
}

// unlocated returns the verdict on keys of which it is not known where they are.
func (w *watch) unlocated(now time.Time) (verdict verify.Verdict, until time.Time) {
	if grace := w.since.Add(verify.GracePeriod); now.Before(grace) {
		return w.reported, grace
	}
	return verify.Verdict{Reason: verify.ReasonUnreachable}, until
}
