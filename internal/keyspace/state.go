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

// reviewInterval is how often verdicts that depend on the time are reviewed.
const reviewInterval = time.Second

// State is what is known about the events of the keys of an id.
type State struct {
	// Verdict says whether their growth is announced.
	verify.Verdict
	// Watchers is how many ids watch keys of the same server.
	Watchers int
	// LastEvent is when growth was last heard of, and LastEnd when it was last heard that a final key holds less; zero if never.
	LastEvent, LastEnd time.Time
	// Since is since when the subscriptions are as they are: the last one of them to begin or end did so then.
	Since time.Time
}

// State returns what is known about the events of the keys of an id. It does not block.
// A later change of its verdict wakes the id with the cause Changed.
func (w *Watcher) State(id ID) State {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := w.watches[id]
	if !ok {
		return State{}
	}
	watched.reported = w.verdict(watched, time.Now())
	server := w.supervisors[watched.endpoint]
	state := State{Verdict: watched.reported, Watchers: server.users}
	for _, key := range watched.keys {
		subscribed := server.set.state(key.channel())
		state.LastEvent = latest(state.LastEvent, subscribed.HeardAt)
		if key.Final {
			state.LastEnd = latest(state.LastEnd, subscribed.ShrunkAt)
		}
		state.Since = latest(state.Since, subscribed.Since)
	}
	return state
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Observed tells of a depth of a key of an id that was read from began until now. It
// reports whether an earlier growth has turned out to be unannounced, by a server that did
// not say so. It does not block. A key that may grow without an event is not to be told of.
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
	server, its, now := w.supervisors[watched.endpoint], watched.keys[at], time.Now()
	subscribed, silentUntil := server.set.state(its.channel()), server.evidence.SilentUntil(its.Class, now)
	return watched.audits[at].Read(depth, began, now, subscribed, silentUntil)
}

// verdict is what is to be said of the keys of an id. What was reported stands until there is
// something else to report.
func (w *Watcher) verdict(watched *watch, now time.Time) verify.Verdict {
	server := w.supervisors[watched.endpoint]
	keys := make([]verify.Key, 0, len(watched.keys))
	for i, key := range watched.keys {
		keys = append(keys, verify.Key{
			Class: key.Class, Subscription: server.set.state(key.channel()), Audit: &watched.audits[i],
		})
	}
	verdict := verify.Judge(server.evidence, keys, maps.Keys(server.classes), now)
	if verdict.Reason == verify.Undecided {
		return watched.reported
	}
	return verdict
}

// reviewer reviews the verdicts when there is new evidence, and every second, until ctx is
// done.
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

// review wakes the ids whose verdict has changed.
func (w *Watcher) review(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, watched := range w.watches {
		if verdict := w.verdict(watched, now); verdict != watched.reported {
			watched.reported = verdict
			w.mark(id, coalesce.Changed)
		}
	}
}
