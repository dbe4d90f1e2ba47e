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

// use is how an owner uses a deployment: with these keys. masters are those of a Cluster that have the keys, as far as that is
// known. They count as servers of the tenant, unless refused is not nil: then it is why the owner may not use them.
type use struct {
	endpoint auth.Endpoint
	keys     []string
	masters  []auth.Endpoint
	refused  error
}

// mastersOf returns the masters of a Cluster that have the keys of an owner, as far as that is known.
func (d *Directory) mastersOf(by owner, e auth.Endpoint, keys []string) []auth.Endpoint {
	if e.Mode != auth.ModeCluster {
		return nil
	}
	d.mu.Lock()
	f, is := d.followers[e], d.owners[by]
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	if is.endpoint != e {
		is.masters = nil
	}
	return f.known.Load().mastersOf(keys, is.masters)
}

// mastersOf returns the masters of a Cluster that have the keys, and those that the slots of the keys are being moved to,
// each once. If it is not known of a key, they may still be where they were before.
func (v *view) mastersOf(keys []string, before []auth.Endpoint) []auth.Endpoint {
	if v == nil {
		return before
	}
	found := map[auth.Endpoint]bool{}
	for _, key := range keys {
		at, err := v.locate(key)
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

// claimMasters claims a deployment together with the masters that have keys of the owner. If these are too many, only the
// deployment is claimed, so that the operator goes on to see where the keys are, and refused says so.
func (d *Directory) claimMasters(by owner, e auth.Endpoint, database int, masters []auth.Endpoint) (refused, err error) {
	err = d.pool.Claim(by.tenant, by.name, e, database, masters...)
	if err == nil || len(masters) == 0 {
		return nil, err
	}
	return err, d.pool.Claim(by.tenant, by.name, e, database)
}

// claimAgain claims the masters of all owners of a Cluster again, before it is told that keys have moved.
func (d *Directory) claimAgain(f *follower, next *view) {
	if f.endpoint.Mode != auth.ModeCluster {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	masters := map[connection.Owner][]auth.Endpoint{}
	for by := range f.owners {
		masters[by.exported()] = next.mastersOf(d.owners[by].keys, d.owners[by].masters)
	}
	refused := d.pool.ClaimAgain(masters)
	for by := range f.owners {
		is := d.owners[by]
		f.count(is, -1)
		is.masters, is.refused = masters[by.exported()], refused[by.exported()]
		f.count(is, 1)
		d.owners[by] = is
	}
}

func (o owner) exported() connection.Owner { return connection.Owner{Tenant: o.tenant, Name: o.name} }

// count adds more to the number of owners that may use each of the masters, or to those that may not. Call it with the
// lock of the directory held.
func (f *follower) count(is use, more int) {
	if is.refused != nil {
		f.refusals += more
		f.refused = is.refused
		return
	}
	for _, master := range is.masters {
		if f.inUse[master] += more; f.inUse[master] == 0 {
			delete(f.inUse, master)
		}
	}
}

// admits returns an error for a place at a master that only owners want to use who may not. Call it with the lock of the
// directory held.
func (f *follower) admits(at Place) error {
	if f.refusals == 0 || f.inUse[at.Owner] > 0 {
		return nil
	}
	return f.refused
}
