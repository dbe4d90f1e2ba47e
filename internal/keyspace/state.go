// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/moment"
)

// State is what is known about the events of the keys of an id.
type State struct {
	// Verdict says whether the growth of the keys is announced by notifications.
	verify.Verdict
	// Tracking says whether the server notifies of changes because it tracks the keys.
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
		state.Watchers = w.users[watched.endpoint]
	}
	if watched.tracked && watched.tracking == verify.Tracked {
		state.Unchanged = w.unchanged(watched)
	}
	if watched.trackingOnly {
		return state
	}
	for _, target := range watched.targets() {
		subscribed := w.nodeOf(target).State(target.key.Name).Subscription
		state.LastEvent = moment.Last(state.LastEvent, subscribed.HeardAt)
		if target.key.Final {
			state.LastEnd = moment.Last(state.LastEnd, subscribed.ShrunkAt)
		}
		state.Since = moment.Last(state.Since, subscribed.Since)
	}
	return state
}

// judge updates what is reported about the keys of an id, and chooses their source of events. It returns when that may
// change although nothing else happens.
func (w *Watcher) judge(id ID, watched *watch, now time.Time) (until time.Time) {
	verdict, until := w.verdict(watched, now)
	watched.reported = verdict
	until = moment.First(until, w.choose(id, watched, now))
	tracking, holds := w.judgeTracking(watched, now)
	watched.tracking = tracking
	return moment.First(until, holds, watched.leaves())
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
	its, is, now := watched.keys[at], watched.placements[at], time.Now()
	if is.owner == (server{}) || is.importing != (server{}) { // Two servers may have announced it.
		return false
	}
	server := w.nodes[database{is.owner, its.Database}]
	known := server.State(its.Name)
	if watched.tracked {
		missed = watched.trackingAudits[at].Read(depth, began, now, known.Valid, time.Time{})
	}
	if watched.trackingOnly {
		return missed
	}
	silentUntil := server.Evidence().SilentUntil(its.Class, now)
	return watched.audits[at].Read(depth, began, now, known.Subscription, silentUntil) || missed
}

// verdict returns the verdict on the notifications of the keys of an id, and when it may change although nothing else
// happens. While there is no new one, that is the last reported verdict.
func (w *Watcher) verdict(watched *watch, now time.Time) (verdict verify.Verdict, until time.Time) {
	switch {
	case watched.trackingOnly:
		return verify.Verdict{}, until
	case !watched.located():
		return watched.unlocated(now)
	}
	verdict = verify.Verdict{Reason: verify.ReasonSubscribed}
	for _, target := range watched.targets() {
		if target.before || verdict.Reason != verify.ReasonSubscribed {
			continue
		}
		server := w.nodeOf(target)
		key := verify.Key{
			Class: target.key.Class, Subscription: server.State(target.key.Name).Subscription, Audit: &watched.audits[target.index],
		}
		if target.importing { // The audit is about the owner.
			key.Audit = &verify.Audit{}
		}
		var holds time.Time
		verdict, holds = verify.Judge(server.Evidence(), key, func() []verify.Class { return w.classes(target.server) }, now)
		until = moment.First(until, holds)
	}
	if verdict.Reason == verify.Undecided {
		verdict = watched.reported
	}
	return verdict, until
}

// classes returns the classes of the keys of a server whose notifications are wanted, in all its databases: they have
// one setting.
func (w *Watcher) classes(of server) (all []verify.Class) {
	for at, each := range w.nodes {
		if at.endpoint == of {
			all = append(all, each.Classes()...)
		}
	}
	return all
}

// unlocated returns the verdict on keys of which it is not known where they are.
func (w *watch) unlocated(now time.Time) (verdict verify.Verdict, until time.Time) {
	if grace := w.since.Add(verify.GracePeriod); now.Before(grace) {
		return w.reported, grace
	}
	return verify.Verdict{Reason: verify.ReasonUnreachable}, until
}

// judgeTracking returns the state of the tracking of the keys, and when it may change although nothing else happens.
func (w *Watcher) judgeTracking(watched *watch, now time.Time) (state verify.Tracking, until time.Time) {
	if !watched.tracked || len(watched.keys) == 0 || !watched.located() {
		return verify.NotTracked, until
	}
	state = verify.Tracked
	for _, target := range watched.targets() {
		if target.before {
			continue
		}
		known, audit := w.nodeOf(target).State(target.key.Name), &watched.trackingAudits[target.index]
		if !known.Tracked || !target.importing && audit.Disproved(now, known.Valid, time.Time{}) {
			return verify.NotTracked, time.Time{}
		}
		until = moment.First(until, audit.Until(now))
		if !known.Proven {
			state = verify.TrackedUnproven
		}
	}
	return state, until
}

// unchanged returns since when the server has reported no change of the keys; zero if one of them is not tracked or is
// being read.
func (w *Watcher) unchanged(watched *watch) (since time.Time) {
	for _, target := range watched.targets() {
		key := w.nodeOf(target).State(target.key.Name).Valid
		if !key.Present {
			return time.Time{}
		}
		since = moment.Last(since, key.Since)
	}
	return since
}

// choose tracks the keys of an id while notifications are not proven, also if there is never a verdict because no
// subscription lasts. The one source begins before the other ends: each begins with a wake, and notifications are
// proven only by a confirmed subscription. It returns when the choice may change although nothing else happens.
func (w *Watcher) choose(id ID, watched *watch, now time.Time) (until time.Time) {
	grace := watched.since.Add(verify.GracePeriod)
	switch {
	case watched.trackingOnly:
	case watched.reported.Reason == verify.Undecided && now.Before(grace):
		return grace
	case watched.tracked == (watched.reported.Reason == verify.ReasonSubscribed):
		before := watched.wants()
		watched.tracked = !watched.tracked
		w.change(id, before, watched.wants())
	}
	return until
}
