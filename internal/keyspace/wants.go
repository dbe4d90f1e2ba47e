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
		e := at.endpoint.Value()
		w.nodes[at] = &watchedNode{database: at, Node: node.New(node.Options{
			Conn: w.options.Pool.Conn(e, at.number), Database: at.number, Name: e.String(),
			Wake: w.wake, Budgets: &w.budgets, Configure: w.options.Configure, Setting: w.settings.enter(e.Address),
			Recorder: w.options.Recorder, Timing: w.options.Timing,
			Log: w.options.Log.WithValues("endpoint", e.String(), "database", at.number),
		})}
		w.changed.Set()
	}
	w.nodes[at].users++
}

// leave ends that.
func (w *Watcher) leave(at database) {
	if w.nodes[at].users--; w.nodes[at].users == 0 {
		delete(w.nodes, at)
		w.settings.leave(at.endpoint.Value().Address)
		w.changed.Set()
	}
}

// settings has the locks of the settings of servers, by address: a server has one setting for all its databases and
// users.
type settings map[string]*setting

type setting struct {
	lock  node.SettingLock
	nodes int
}

// enter returns the lock for a further node of the server at an address.
func (s settings) enter(address string) node.SettingLock {
	if s[address] == nil {
		s[address] = &setting{lock: node.NewSettingLock()}
	}
	s[address].nodes++
	return s[address].lock
}

// leave forgets the lock with the last node.
func (s settings) leave(address string) {
	if s[address].nodes--; s[address].nodes == 0 {
		delete(s, address)
	}
}
