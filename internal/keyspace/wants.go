// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"miracle.dev/scaledjob-operator/internal/keyspace/node"
)

// database is a database of a server.
type database struct {
	endpoint server
	number   int
}

// watchedNode is the node of a database.
type watchedNode struct {
	*node.Node
	database
	// users is how many keys are watched, each once for each id. The lock of the watcher guards it.
	users int
}

// location is where a key is watched.
type location struct {
	database
	key string
}

// location returns where the key of a target is watched.
func (s target) location() location { return location{database{s.server, s.key.Database}, s.key.Name} }

// nodeOf returns the node of a target, or nil.
func (w *Watcher) nodeOf(s target) *watchedNode { return w.nodes[s.location().database] }

// wants returns how the keys of a watch are to be watched.
func (w *watch) wants() map[location]node.Interest {
	all := map[location]node.Interest{}
	for _, target := range w.targets() {
		all[target.location()] = node.Interest{
			Class: target.key.Class, Notify: !w.trackingOnly, Track: w.tracked, Asking: target.importing,
		}
	}
	return all
}

// change begins what an id wants now, and then ends what it does not want any longer.
func (w *Watcher) change(id ID, before, now map[location]node.Interest) {
	for at, as := range now {
		had, has := before[at]
		if !has {
			w.enter(at.database)
		}
		if had != as {
			w.nodes[at.database].Watch(at.key, id, as, w.throttle.Idle(id))
		}
	}
	for at := range before {
		if _, still := now[at]; !still {
			w.nodes[at.database].Watch(at.key, id, node.Interest{}, false)
			w.leave(at.database)
		}
	}
}

// enter records that a key of a database is watched.
func (w *Watcher) enter(at database) {
	if w.nodes[at] == nil {
		name := at.endpoint.Value().String()
		w.nodes[at] = &watchedNode{database: at, Node: node.New(node.Options{
			Conn: w.options.Pool.Conn(at.endpoint.Value(), at.number), Database: at.number, Name: name,
			Wake: w.wake, Budgets: &w.budgets, Configure: w.options.Configure,
			Recorder: w.options.Recorder, Timing: w.options.Timing,
			Log: w.options.Log.WithValues("endpoint", name, "database", at.number),
		})}
		w.changed.Set()
	}
	w.nodes[at].users++
}

// leave ends that.
func (w *Watcher) leave(at database) {
	if w.nodes[at].users--; w.nodes[at].users == 0 {
		delete(w.nodes, at)
		w.changed.Set()
	}
}
