// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"miracle.dev/scaledjob-operator/internal/keyspace/coalesce"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// want is what an id needs of one server: a subscription to a key, or that the server tracks it.
type want struct {
	server  auth.Endpoint
	key     Key
	tracked bool
	// asking means that the slot of the tracked key is being moved to the server.
	asking bool
}

// wants returns what a watch needs.
func (w *watch) wants() map[want]struct{} {
	all := map[want]struct{}{}
	for spot := range w.spots() {
		key := spot.key
		key.Final = false // It is not about the server.
		if !w.trackingOnly {
			all[want{server: spot.server, key: key}] = struct{}{}
		}
		if w.on {
			all[want{spot.server, key, true, spot.importing}] = struct{}{}
		}
	}
	return all
}

// change begins what an id wants now, and then ends what it does not want any longer.
func (w *Watcher) change(id ID, before, now map[want]struct{}) {
	for each := range now {
		if _, had := before[each]; !had {
			w.begin(id, each)
		}
	}
	for each := range before {
		if _, still := now[each]; !still {
			w.end(id, each)
		}
	}
}

func (w *Watcher) begin(id ID, a want) {
	if a.tracked {
		at := database{a.server, a.key.Database}
		if w.trackers[at] == nil {
			w.trackers[at] = w.newTracker(at)
			w.changed.Set()
		}
		w.trackers[at].users++
		w.trackers[at].Add(a.key.trackingKey(a.asking), id, w.throttle.Idle(id))
		return
	}
	to, ok := w.supervisors[a.server]
	if !ok {
		to = w.newSupervisor(a.server)
		w.supervisors[a.server] = to
		w.changed.Set()
	}
	to.users++
	to.classes[a.key.Class]++
	if ok && to.classes[a.key.Class] == 1 {
		to.due.Set()
	}
	if confirmed := to.set.add(a.key.channel(), id); confirmed {
		w.mark(id, coalesce.Confirmed)
	}
}

func (w *Watcher) end(id ID, a want) {
	if a.tracked {
		from := w.trackers[database{a.server, a.key.Database}]
		from.Remove(a.key.trackingKey(a.asking), id)
		from.users--
		if from.users == 0 {
			delete(w.trackers, from.database)
			w.changed.Set()
		}
		return
	}
	from := w.supervisors[a.server]
	from.set.remove(a.key.channel(), id)
	from.classes[a.key.Class]--
	if from.classes[a.key.Class] == 0 {
		delete(from.classes, a.key.Class)
	}
	from.users--
	if from.users == 0 {
		delete(w.supervisors, a.server)
		w.changed.Set()
	}
}
