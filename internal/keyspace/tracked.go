// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"context"
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
	// users is how many ids have keys in the tracker. The lock of the watcher guards it.
	users int
}

func (t *tracker) run(ctx context.Context) { t.Run(ctx) }

func (t *tracker) server() auth.Endpoint { return t.endpoint }

// tracked is the tracking of the keys of one id.
type tracked struct {
	on     bool           // the keys are tracked
	audits []verify.Audit // one for each key
	// tracking is the last reported state.
	tracking verify.Tracking
}

// trackingKey returns the key for the tracker. A key whose slot is being moved to the server is read after ASKING.
func (k Key) trackingKey(importing bool) tracking.Key {
	return tracking.Key{Name: k.Name, Class: k.Class, Asking: importing}
}

// trackerOf returns the tracker of a spot, or nil.
func (w *Watcher) trackerOf(s spot) *tracker { return w.trackers[database{s.server, s.key.Database}] }

func (w *Watcher) setIdle(id ID, watched *watch, idle bool) {
	if !watched.on {
		return
	}
	for spot := range watched.spots() {
		w.trackerOf(spot).SetIdle(spot.key.trackingKey(spot.importing), id, idle)
	}
}

// judgeTracking returns the state of the tracking of the keys, and when it may change although nothing else happens.
func (w *Watcher) judgeTracking(watched *watch, now time.Time) (state verify.Tracking, until time.Time) {
	if !watched.on || len(watched.keys) == 0 {
		return verify.NotTracked, until
	}
	state, found := verify.Tracked, 0
	for spot := range watched.spots() {
		if spot.before {
			continue
		}
		if !spot.importing {
			found++
		}
		to := w.trackerOf(spot)
		known := to.State(spot.key.trackingKey(spot.importing))
		if !known.Tracked || !spot.importing && watched.tracked.audits[spot.index].Disproved(now, known.Armed) {
			return verify.NotTracked, time.Time{}
		}
		until = verify.Earlier(until, watched.tracked.audits[spot.index].Until(now))
		if !to.Proven() {
			state = verify.TrackedUnproven
		}
	}
	if found < len(watched.keys) { // It is not known where they are.
		return verify.NotTracked, time.Time{}
	}
	return state, until
}

// unchanged returns since when the server has reported no change of the keys; zero if one of them is not armed.
func (w *Watcher) unchanged(watched *watch) (since time.Time) {
	for spot := range watched.spots() {
		key := w.trackerOf(spot).State(spot.key.trackingKey(spot.importing)).Armed
		if !key.Present {
			return time.Time{}
		}
		since = latest(since, key.Since)
	}
	return since
}

func (w *Watcher) newTracker(at database) *tracker {
	name := at.endpoint.String()
	return &tracker{database: at, Tracker: tracking.New(tracking.Options{
		Conn: w.options.Pool.Conn(at.endpoint, at.number), Name: name, Database: at.number,
		Mark: w.mark, Budgets: &w.budgets, Recorder: w.options.Recorder, Timing: w.options.Tracking,
		Log: w.options.Log.WithValues("endpoint", name, "database", at.number),
	})}
}

// track begins to track the keys of an id, or ends that.
func (w *Watcher) track(id ID, watched *watch, on bool) {
	before := watched.wants()
	watched.on = on
	w.change(id, before, watched.wants())
}

// choose tracks the keys of an id while notifications are not proven, also if there is never a verdict because no
// subscription lasts. The one source begins before the other ends: each begins with a wake, and notifications are proven
// only by a confirmed subscription. It returns when the choice may change although nothing else happens.
func (w *Watcher) choose(id ID, watched *watch, now time.Time) (until time.Time) {
	grace := watched.since.Add(verify.GracePeriod)
	switch {
	case watched.trackingOnly:
	case watched.reported.Reason == verify.Undecided && now.Before(grace):
		return grace
	case watched.on == (watched.reported.Reason == verify.ReasonSubscribed):
		w.track(id, watched, !watched.on)
	}
	return until
}
