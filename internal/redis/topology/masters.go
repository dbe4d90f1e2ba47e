// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"maps"
	"slices"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
)

// use is how a user uses a deployment: with these keys. masters are those of a Cluster that have the keys, as far as
// that is known. They count as servers of the tenant, unless refused is not nil: then it is why the user may not use
// them.
type use struct {
	keys    []string
	masters []auth.Endpoint
	refused error
}

// mastersOf returns the masters of a Cluster that have the keys of a user, as far as that is known, and the view that
// says so.
func (d *Directory) mastersOf(by connection.Owner, e auth.Endpoint, keys []string) (masters []auth.Endpoint, known *view) {
	d.mu.Lock()
	w := d.watchers[e]
	if w != nil {
		known, masters = w.known.Load(), w.uses[by].masters
	}
	d.mu.Unlock()
	return known.mastersOf(keys, masters), known
}

// mastersOf returns the masters of a Cluster that have the keys, and those that the slots of the keys are being moved
// to, each once. If it is not known of a key, they may still be where they were before.
func (v *view) mastersOf(keys []string, before []auth.Endpoint) []auth.Endpoint {
	if v == nil || v.owners == nil {
		return before
	}
	found := map[auth.Endpoint]bool{}
	for _, key := range keys {
		at, err := v.route(key)
		found[at.Owner], found[at.Importing] = true, true
		if err != nil {
			for _, master := range before {
				found[master] = true
			}
		}
	}
	delete(found, auth.Endpoint{})
	return slices.SortedFunc(maps.Keys(found), func(a, b auth.Endpoint) int { return cmp.Compare(a.Address, b.Address) })
}

// claimMasters claims a deployment together with the masters that have keys of the user. If these are too many, only
// the deployment is claimed, so that the operator goes on to see where the keys are, and refused says so.
func (d *Directory) claimMasters(
	by connection.Owner, e auth.Endpoint, database int, masters []auth.Endpoint,
) (refused, err error) {
	err = d.Pool.Claim(by.Tenant, by.Name, e, database, masters...)
	if err == nil || len(masters) == 0 {
		return nil, err
	}
	return err, d.Pool.Claim(by.Tenant, by.Name, e, database)
}

// move claims the masters of all users of a Cluster again, and then publishes that keys have moved. A user who claims
// meanwhile sees that in [Directory.record].
func (d *Directory) move(w *watcher, next *view) {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := map[connection.Owner][]auth.Endpoint{}
	for by, is := range w.uses {
		if masters := next.mastersOf(is.keys, is.masters); masters != nil || is.masters != nil {
			again[by] = masters
		}
	}
	refused := d.ClaimAgain(again)
	for by, masters := range again {
		w.count(w.uses[by], -1)
		is := use{w.uses[by].keys, masters, refused[by]}
		w.count(is, 1)
		w.uses[by] = is
	}
	w.adopt(next)
	for by := range w.uses {
		d.changed(by)
	}
}

// count adds more to the number of users that may use each of the masters, or to those that may not. Call it with the
// lock of the directory held.
func (w *watcher) count(is use, more int) {
	if is.refused != nil {
		w.refusals += more
		w.refused = is.refused
		return
	}
	for _, master := range is.masters {
		if w.inUse[master] += more; w.inUse[master] == 0 {
			delete(w.inUse, master)
		}
	}
}

// admits returns an error for a route to a master that only users want to use who may not. Call it with the lock of the
// directory held.
func (w *watcher) admits(at Route) error {
	if w.refusals == 0 || w.inUse[at.Owner] > 0 {
		return nil
	}
	return w.refused
}
