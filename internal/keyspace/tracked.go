// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/tracking"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// database is a database of an endpoint.
type database struct {
	endpoint auth.Endpoint
	number   int
}

// tracker tracks the keys of one database.
type tracker struct {
	*tracking.Tracker
	database
	recorder trackerRecorder
	// users is how many ids have keys in the tracker. The lock of the watcher guards it.
	users int
}

func (t *tracker) run(ctx context.Context) {
	t.recorder.Tracked(false)
	t.Run(ctx)
}

func (t *tracker) server() auth.Endpoint { return t.endpoint }

// trackerRecorder passes on what happens in a tracker.
type trackerRecorder struct {
	Recorder
	of database
}

// Tracked is called when a session begins or ends.
func (r trackerRecorder) Tracked(tracked bool) {
	r.Recorder.Tracked(r.of.endpoint.String(), r.of.number, tracked)
}

// Invalidated is called for each message about changed keys.
func (r trackerRecorder) Invalidated() { r.Recorder.Invalidated(r.of.endpoint.String()) }

// Ended is called when a session, or an attempt to begin one, has ended.
func (r trackerRecorder) Ended(reason string) { r.Recorder.Ended(r.of.endpoint.String(), reason) }

// tracked is the tracking of the keys of one id.
type tracked struct {
	tracker *tracker       // nil while the keys are not tracked
	audits  []verify.Audit // one for each key
	// tracking is the last reported state.
	tracking verify.Tracking
}

// trackingKey returns the key for the tracker.
func (k Key) trackingKey() tracking.Key { return tracking.Key{Name: k.Name, Class: k.Class} }

func (t *tracked) setIdle(id ID, keys []Key, idle bool) {
	if t.tracker == nil {
		return
	}
	for _, key := range keys {
		t.tracker.SetIdle(key.trackingKey(), id, idle)
	}
}

// judge returns the state of the tracking of the keys.
func (t *tracked) judge(keys []Key, now time.Time) verify.Tracking {
	if t.tracker == nil || len(keys) == 0 {
		return verify.NotTracked
	}
	for i, key := range keys {
		if known := t.tracker.State(key.trackingKey()); !known.Tracked || t.audits[i].Disproved(now, known.Armed) {
			return verify.NotTracked
		}
	}
	if !t.tracker.Proven() {
		return verify.TrackedUnproven
	}
	return verify.Tracked
}

// unhurried reports whether the state of the tracking remains the same while time passes and nothing else happens.
func (t *tracked) unhurried() bool {
	return t.tracker == nil || !slices.ContainsFunc(t.audits, func(a verify.Audit) bool { return !a.Settled() })
}

// tracks reports whether one of the keys is read in this way.
func (w *watch) tracks(key tracking.Key) bool {
	return slices.ContainsFunc(w.keys, func(other Key) bool { return other.trackingKey() == key })
}

// track begins to track the keys of an id.
func (w *Watcher) track(id ID, next *watch) {
	if next.tracker != nil || len(next.keys) == 0 {
		return
	}
	at := database{next.endpoint, next.keys[0].Database}
	to, ok := w.trackers[at]
	if !ok {
		recorder := trackerRecorder{w.options.Recorder, at}
		to = &tracker{database: at, recorder: recorder, Tracker: tracking.New(tracking.Options{
			Conn: w.options.Pool.Conn(at.endpoint, at.number), Mark: w.mark, Budgets: w.budgets, Proven: w.evidenceChanged,
			Recorder: recorder, Timing: w.options.Tracking,
			Log: w.options.Log.WithValues("endpoint", at.endpoint.String(), "database", at.number),
		})}
		w.trackers[at] = to
		w.changed.Set()
	}
	to.users++
	next.tracker, next.settled = to, false
	for _, key := range next.keys {
		to.Add(key.trackingKey(), id)
	}
}

// untrack stops tracking the keys of an id, except for those that next tracks as well.
func (w *Watcher) untrack(id ID, old, next *watch) {
	from := old.tracker
	if from == nil {
		return
	}
	old.tracker, old.settled = nil, false
	for _, key := range old.keys {
		if next.tracker != from || !next.tracks(key.trackingKey()) {
			from.Remove(key.trackingKey(), id)
		}
	}
	from.users--
	if from.users == 0 {
		delete(w.trackers, from.database)
		w.changed.Set()
	}
}

// choose tracks the keys of an id while notifications are not proven, also if there is never a verdict because no
// subscription lasts. The one source begins before the other ends: each begins with a wake, and notifications are proven
// only by a confirmed subscription.
func (w *Watcher) choose(id ID, watched *watch, now time.Time) {
	switch {
	case watched.trackingOnly:
	case watched.reported.Reason == verify.Undecided && now.Sub(watched.since) < verify.GracePeriod:
	case watched.reported.Reason == verify.ReasonSubscribed:
		w.untrack(id, watched, &watch{})
	default:
		w.track(id, watched)
	}
}
