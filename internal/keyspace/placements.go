// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"slices"
	"time"
	"unique"

	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/moment"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/topology"
)

// leaveAfter is how long a key is still watched where it was before, if it is not watched yet where it is now.
const leaveAfter = 5 * time.Second

// Directory knows where keys are: see package topology.
type Directory interface {
	// Route returns where a key of an endpoint is.
	Route(e auth.Endpoint, key string) (topology.Route, error)
	// Version returns a number that grows when a route may have changed. OnChange sets the function that is then called
	// for each user of the endpoint.
	Version(e auth.Endpoint) uint64
	OnChange(call func(tenant, name string))
}

// server is a server with keys, or none. As a handle it takes little memory.
type server = unique.Handle[auth.Endpoint]

func serverOf(e auth.Endpoint) server {
	if e == (auth.Endpoint{}) {
		return server{}
	}
	return unique.Make(e)
}

// placement is where one key is watched.
type placement struct {
	// owner is the server that has the key; none if that is not known. importing is that to which its slot is being moved.
	owner, importing server
	// before are the servers where the key was until leftAt, at most two. It is watched there until the subscription to
	// its new server is confirmed, so that no event is missed.
	before []server
	leftAt time.Time
}

// target is a key on a server where it is watched.
type target struct {
	// index is the index of the key.
	index  int
	key    Key
	server server
	// importing means that the slot of the key is being moved to the server. before means that the key was there before.
	importing, before bool
}

// targets returns where the keys are watched, of each key first the owner. A key may be watched on several servers.
func (w *watch) targets() (all []target) {
	for i, key := range w.keys {
		at := &w.placements[i]
		if at.owner != (server{}) {
			all = append(all, target{index: i, key: key, server: at.owner})
		}
		if at.importing != (server{}) {
			all = append(all, target{index: i, key: key, server: at.importing, importing: true})
		}
		for _, former := range at.before {
			all = append(all, target{index: i, key: key, server: former, before: true})
		}
	}
	return all
}

// located reports whether it is known of all keys where they are.
func (w *watch) located() bool {
	return !slices.ContainsFunc(w.placements, func(at placement) bool { return at.owner == (server{}) })
}

// locate finds out where the keys of a watch are. It reports whether a key has moved, and whether all are known again
// after they were not. A key stays where it was while nothing is known about it.
func (w *Watcher) locate(of *watch) (moved, known bool) {
	lost := false
	of.placedAt = w.options.Directory.Version(of.endpoint)
	for i, key := range of.keys {
		at, err := w.options.Directory.Route(of.endpoint, key.Name)
		lost = lost || err != nil
		if err == nil && of.placements[i].move(serverOf(at.Owner), serverOf(at.Importing), time.Now()) {
			moved = true
		}
	}
	known = of.lost && !lost
	of.lost = lost
	return moved, known
}

// move records where a key is, and reports whether that is somewhere else than before.
func (p *placement) move(owner, importing server, now time.Time) (moved bool) {
	if p.owner == owner && p.importing == importing {
		return false
	}
	var before []server
	for _, each := range []server{p.owner, p.importing} {
		if each != (server{}) && each != owner && each != importing && !slices.Contains(before, each) {
			before = append(before, each)
		}
	}
	*p = placement{owner, importing, before, now}
	return true
}

// relocate watches the keys of an id where they are now, if that may have changed.
func (w *Watcher) relocate(id ID, watched *watch, now time.Time) {
	stale := watched.placedAt != w.options.Directory.Version(watched.endpoint)
	leaving := slices.ContainsFunc(watched.placements, func(at placement) bool { return len(at.before) > 0 })
	if !stale && !leaving {
		return
	}
	next := *watched
	next.placements = slices.Clone(watched.placements)
	var moved bool
	if stale {
		var known bool
		if moved, known = w.locate(&next); moved || known {
			w.wake(id, coalesce.Changed)
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
		at := target{key: watched.keys[i], server: watched.placements[i].owner}
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
	for i := range w.placements {
		if len(w.placements[i].before) > 0 {
			at = moment.First(at, w.placements[i].leftAt.Add(leaveAfter))
		}
	}
	return at
}

// leaveBefore leaves the servers where keys were before, if the keys are watched where they are now, or after a while.
// It reports whether there were any.
func (w *watch) leaveBefore(now time.Time, announced func(i int) bool) (left bool) {
	for i := range w.placements {
		at := &w.placements[i]
		if len(at.before) > 0 && (announced(i) || now.Sub(at.leftAt) >= leaveAfter) {
			at.before, left = nil, true
		}
	}
	return left
}
