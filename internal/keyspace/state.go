// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"maps"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
)

// reviewInterval is the time between two reviews of the verdicts, which may change as time passes.
const reviewInterval = time.Second

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
	if watched.trackingOnly {
		if watched.tracker != nil { // There is at least one key.
			state.Watchers = watched.tracker.users
		}
		return state
	}
	server := w.supervisors[watched.endpoint]
	state.Watchers = server.users
	for _, key := range watched.keys {
		subscribed := server.set.state(key.channel(), id.Namespace)
		state.LastEvent = latest(state.LastEvent, subscribed.HeardAt)
		if key.Final {
			state.LastEnd = latest(state.LastEnd, subscribed.ShrunkAt)
		}
		state.Since = latest(state.Since, subscribed.Since)
	}
	return state
}

// judge updates what is reported about the keys of an id, and chooses their source of events. It reports whether
// anything has changed.
func (w *Watcher) judge(id ID, watched *watch, now time.Time) (changed bool) {
	verdict, tracking := w.verdict(id, watched, now), watched.judge(watched.keys, now)
	changed = verdict != watched.reported || tracking != watched.tracking
	watched.reported, watched.tracking = verdict, tracking
	w.choose(id, watched)
	return changed
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
	if watched.tracker != nil {
		known := watched.tracker.State(its.trackingKey())
		missed = watched.tracked.audits[at].Read(depth, began, now, known.Armed, time.Time{})
	}
	if watched.trackingOnly {
		return missed
	}
	server := w.supervisors[watched.endpoint]
	subscribed, silentUntil := server.set.state(its.channel(), id.Namespace), server.evidence.SilentUntil(its.Class, now)
	return watched.audits[at].Read(depth, began, now, subscribed, silentUntil) || missed
}

// verdict returns the verdict on the notifications of the keys of an id. While there is no new one, that is the last
// reported verdict.
func (w *Watcher) verdict(id ID, watched *watch, now time.Time) verify.Verdict {
	if watched.trackingOnly {
		return verify.Verdict{}
	}
	server := w.supervisors[watched.endpoint]
	keys := make([]verify.Key, 0, len(watched.keys))
	for i, key := range watched.keys {
		keys = append(keys, verify.Key{
			Class: key.Class, Subscription: server.set.state(key.channel(), id.Namespace), Audit: &watched.audits[i],
		})
	}
	verdict := verify.Judge(server.evidence, keys, maps.Keys(server.classes), now)
	if verdict.Reason == verify.Undecided {
		return watched.reported
	}
	return verdict
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
		case <-ticker.C:
		}
		w.review(time.Now())
	}
}

// review wakes the ids whose verdict or tracking has changed.
func (w *Watcher) review(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, watched := range w.watches {
		if w.judge(id, watched, now) {
			w.mark(id, coalesce.Changed)
		}
	}
}
