// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

const (
	// reviewInterval is the time between two reviews of the verdicts, which may change as time passes.
	reviewInterval = time.Second
	// reviewSpacing is the time between two reviews at least: servers may give evidence without end.
	reviewSpacing = 50 * time.Millisecond
	// reviewedAtOnce is for how many ids a review holds the lock of the watcher.
	reviewedAtOnce = 32
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
	// Unchanged is since when the server, which tracks the keys, has reported no change of any. It is zero if it would
	// not report the next one.
	Unchanged time.Time
}

// Announced reports whether it is proven that growth of the keys is announced, by either source.
func (s State) Announced() bool {
	return s.Reason == verify.ReasonSubscribed || s.Tracking == verify.Tracked
}

// State returns what is known about the events of the keys of an id. It does not block. If the verdict changes later,
// the id is woken with the cause Changed.
func (w *Watcher) State(id ID) State {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok {
		return State{}
	}
	w.judge(id, watched, time.Now())
	state := State{Verdict: watched.reported, Tracking: watched.tracking}
	if len(watched.keys) > 0 {
		state.Watchers = w.users[watched.endpoint]
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

// judge updates what is reported about the keys of an id, and chooses their source of events. It reports whether
// anything has changed.
func (w *Watcher) judge(id ID, watched *watch, now time.Time) (changed bool) {
	watched.judgedAt = w.version(watched)
	verdict, settled := w.verdict(id, watched, now)
	tracking := w.judgeTracking(watched, now)
	changed = verdict != watched.reported || tracking != watched.tracking
	watched.reported, watched.tracking = verdict, tracking
	watched.settled = settled && watched.unhurried()
	w.choose(id, watched, now)
	return changed
}

// version returns a number that grows when the state of the keys of an id may change.
func (w *Watcher) version(of *watch) (version uint64) {
	for spot := range of.spots() {
		if !of.trackingOnly {
			version += w.supervisors[spot.server].version()
		}
		if of.on {
			version += w.trackerOf(spot).Version()
		}
	}
	return version
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
	watched.settled = false
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

// verdict returns the verdict on the notifications of the keys of an id. While there is no new one, that is the last
// reported verdict. settled means that it remains the same while time passes and nothing else happens.
func (w *Watcher) verdict(id ID, watched *watch, now time.Time) (verdict verify.Verdict, settled bool) {
	if watched.trackingOnly {
		return verify.Verdict{}, true
	}
	settled, verdict = true, verify.Verdict{Reason: verify.ReasonSubscribed}
	located := 0
	for spot := range watched.spots() {
		if spot.before {
			continue
		}
		server := w.supervisors[spot.server]
		key := verify.Key{
			Class: spot.key.Class, Subscription: server.set.state(spot.key.channel()), Audit: &watched.audits[spot.index],
		}
		if spot.importing { // The audit is about the owner.
			key.Audit = &verify.Audit{}
		} else {
			located++
		}
		settled = settled && key.Settled(now)
		if verdict.Reason == verify.ReasonSubscribed {
			verdict = verify.Judge(server.evidence, []verify.Key{key}, maps.Keys(server.classes), now)
		}
	}
	if located < len(watched.keys) {
		return w.unlocated(watched, now), false
	}
	if verdict.Reason == verify.Undecided {
		verdict = watched.reported
	}
	return verdict, settled
}

// unlocated returns the verdict on keys of which it is not known where they are.
func (w *Watcher) unlocated(watched *watch, now time.Time) verify.Verdict {
	if now.Sub(watched.since) < verify.GracePeriod {
		return watched.reported
	}
	return verify.Verdict{Reason: verify.ReasonUnreachable}
}

// reviewer reviews the verdicts when there is new evidence, and every second, until ctx is done.
func (w *Watcher) reviewer(ctx context.Context) {
	ticker := time.NewTicker(reviewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.evidenceChanged:
		case <-w.options.Directory.Changed():
		case <-ticker.C:
		}
		w.review(time.Now())
		spacing := time.NewTimer(reviewSpacing)
		select {
		case <-ctx.Done():
			spacing.Stop()
			return
		case <-spacing.C:
		}
	}
}

// review wakes the ids whose verdict or tracking has changed. It takes the lock for some of them at a time, because
// everybody else waits for it meanwhile.
func (w *Watcher) review(now time.Time) {
	w.mu.Lock()
	w.reviewed = w.appendOpen(w.reviewed[:0])
	w.mu.Unlock()
	for some := range slices.Chunk(w.reviewed, reviewedAtOnce) {
		w.reviewSome(some, now)
	}
}

// appendOpen appends the ids to review. If nothing has changed on any server since the last review began, these are the
// ones for which time matters, and those whose keys may move.
func (w *Watcher) appendOpen(ids []ID) []ID {
	changed := false
	for each := range w.needed() {
		changed = each.noteVersion() || changed
	}
	for id, watched := range w.watches {
		if changed || !watched.settled || watched.places != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// reviewSome reviews ids, except for those where nothing can have changed.
func (w *Watcher) reviewSome(ids []ID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		watched, ok := w.watches[id]
		if !ok {
			continue
		}
		w.relocate(id, watched, now)
		if watched.settled && watched.judgedAt == w.version(watched) {
			continue
		}
		if w.judge(id, watched, now) {
			w.mark(id, coalesce.Changed)
		}
	}
}
