// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"iter"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
)

// leaveAfter is how long a key is still watched where it was before, if it is not watched yet where it is now.
const leaveAfter = 5 * time.Second

// Directory knows where keys are: see package topology.
type Directory interface {
	// Locate returns where a key of an endpoint is.
	Locate(e auth.Endpoint, key string) (topology.Place, error)
	// Changed has a token after a place may have changed. Version returns a number that grows then.
	Changed() <-chan struct{}
	Version(e auth.Endpoint) uint64
}

// place is where one key of a deployment is watched.
type place struct {
	topology.Place
	// known means that Place is known.
	known bool
	// before are the servers where the key was until leftAt, at most two. It is watched there until the subscription to its
	// new place is confirmed, so that no event is missed.
	before []auth.Endpoint
	leftAt time.Time
}

// spot is a key on a server where it is watched.
type spot struct {
	// index is the index of the key.
	index  int
	key    Key
	server auth.Endpoint
	// importing means that the slot of the key is being moved to the server. before means that the key was there before.
	importing, before bool
}

// spots returns where the keys are watched. A key may be watched on several servers.
func (w *watch) spots() iter.Seq[spot] {
	return func(yield func(spot) bool) {
		for i, key := range w.keys {
			if !w.spotsOf(i, key, yield) {
				return
			}
		}
	}
}

// spotsOf yields the spots of one key, first the one on its owner.
func (w *watch) spotsOf(i int, key Key, yield func(spot) bool) (goOn bool) {
	if w.places == nil {
		return yield(spot{index: i, key: key, server: w.endpoint})
	}
	at := &w.places[i]
	if at.known && !yield(spot{index: i, key: key, server: at.Owner}) {
		return false
	}
	if at.Importing != (auth.Endpoint{}) && !yield(spot{index: i, key: key, server: at.Importing, importing: true}) {
		return false
	}
	for _, server := range at.before {
		if !yield(spot{index: i, key: key, server: server, before: true}) {
			return false
		}
	}
	return true
}

// owner returns the server that has a key. known is false if that is not known.
func (w *watch) owner(i int) (server auth.Endpoint, known bool) {
	if w.places == nil {
		return w.endpoint, true
	}
	return w.places[i].Owner, w.places[i].known
}

// locate finds out where the keys of a watch are. It reports whether a key has moved, and whether all are known again
// after they were not. A key stays where it was while nothing is known about it.
func (w *Watcher) locate(of *watch) (moved, known bool) {
	if of.endpoint.Mode == auth.ModeStandalone {
		return false, false
	}
	lost := false
	of.placedAt = w.options.Directory.Version(of.endpoint)
	before := of.places
	of.places = make([]place, len(of.keys))
	for i, key := range of.keys {
		if before != nil {
			of.places[i] = before[i]
		}
		at, err := w.options.Directory.Locate(of.endpoint, key.Name)
		lost = lost || err != nil
		if is := &of.places[i]; err == nil && (!is.known || is.Place != at) {
			is.move(at, time.Now())
			moved = true
		}
	}
	known = of.lost && !lost
	of.lost = lost
	return moved, known
}

// move records that a key is somewhere else.
func (p *place) move(to topology.Place, now time.Time) {
	var before []auth.Endpoint
	for _, server := range []auth.Endpoint{p.Owner, p.Importing} {
		if server != (auth.Endpoint{}) && server != to.Owner && server != to.Importing && !slices.Contains(before, server) {
			before = append(before, server)
		}
	}
	p.Place, p.known, p.before, p.leftAt = to, true, before, now
}

// relocate watches the keys of an id where they are now, if that may have changed.
func (w *Watcher) relocate(id ID, watched *watch, now time.Time) {
	if watched.places == nil {
		return
	}
	stale := watched.placedAt != w.options.Directory.Version(watched.endpoint)
	leaving := slices.ContainsFunc(watched.places, func(at place) bool { return len(at.before) > 0 })
	if !stale && !leaving {
		return
	}
	next := *watched
	next.places = slices.Clone(watched.places)
	var moved bool
	if stale {
		var known bool
		if moved, known = w.locate(&next); moved || known {
			w.mark(id, coalesce.Changed)
		}
	}
	if left := next.leaveBefore(now, w.watchedAt(&next)); !moved && !left {
		watched.placedAt, watched.lost = next.placedAt, next.lost
		return
	}
	if moved {
		next.audits, next.trackingAudits = make([]verify.Audit, len(next.keys)), make([]verify.Audit, len(next.keys))
	}
	before := watched.wants()
	*watched = next
	w.change(id, before, watched.wants())
}

// watchedAt returns a function that reports whether growth of a key is announced where it is now.
func (w *Watcher) watchedAt(watched *watch) func(i int) bool {
	return func(i int) bool {
		at := spot{key: watched.keys[i], server: watched.places[i].Owner}
		to := w.nodeOf(at)
		if to == nil {
			return false
		}
		known := to.State(at.key.Name)
		if watched.tracked { // The notifications alone may not be enough.
			return known.Tracked
		}
		return known.Subscription.Present
	}
}

// leaves returns when the next servers where keys were before are left. It is zero if there are none.
func (w *watch) leaves() (at time.Time) {
	for i := range w.places {
		if len(w.places[i].before) > 0 {
			at = verify.Earlier(at, w.places[i].leftAt.Add(leaveAfter))
		}
	}
	return at
}

// wakeMoved wakes those whose keys may have moved.
func (w *Watcher) wakeMoved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for endpoint, using := range w.users {
		if endpoint.Mode == auth.ModeStandalone {
			continue
		}
		if version := w.options.Directory.Version(endpoint); version != using.version {
			using.version = version
			for id := range using.ids {
				w.mark(id, coalesce.Changed)
			}
		}
	}
}

// leaveBefore leaves the servers where keys were before, if the keys are watched where they are now, or after a while.
// It reports whether there were any.
func (w *watch) leaveBefore(now time.Time, announced func(i int) bool) (left bool) {
	for i := range w.places {
		at := &w.places[i]
		if len(at.before) > 0 && (announced(i) || now.Sub(at.leftAt) >= leaveAfter) {
			at.before, left = nil, true
		}
	}
	return left
}
