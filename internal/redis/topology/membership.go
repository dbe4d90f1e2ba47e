// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// mostNewAddresses is how many addresses may be new at once, and newAddressInterval how often there may be one more. An
	// address that was not named for forgetAddress is new again.
	mostNewAddresses   = mostAsked + mostMasters
	newAddressInterval = time.Second
	forgetAddress      = 10 * time.Minute
)

// judge returns the answers of servers that belong to the deployment, and keeps which ones do not. An address, such as that
// of a Pod, may by now be that of a server of another deployment. So a server counts if the user names it, or if servers that
// count know it, or did before.
func (f *follower) judge(said []answer) (believed []answer) {
	known := f.knownBefore(said)
	f.outsiders = map[string]bool{}
	for _, each := range said {
		f.outsiders[each.from] = true
	}
	for before := -1; before < len(believed); {
		before = len(believed)
		for _, each := range said {
			if !f.outsiders[each.from] || !f.names(each.from) && !f.belongs(each, known) {
				continue
			}
			delete(f.outsiders, each.from)
			believed = append(believed, each)
			for _, peer := range each.peers() {
				known[peer] = true
			}
		}
	}
	return believed
}

// foreign returns the addresses of nodes that have the ID of another Cluster, by what they say themselves. The nodes that
// believe such an address to be that of one of them do not know yet.
func (f *follower) foreign(said []answer) map[string]bool {
	found := map[string]bool{}
	for _, each := range said {
		if f.outsiders[each.from] && each.nodes != nil && each.nodes.self != "" {
			found[each.from] = true
		}
	}
	return found
}

// names reports whether the user names an address.
func (f *follower) names(address string) bool {
	return slices.Contains(f.endpoint.Addresses(), address)
}

// knownBefore returns what the servers of the deployment were known by. It is empty if those that the user names know
// others, but none of these: then the addresses lead to another deployment now.
func (f *follower) knownBefore(said []answer) map[string]bool {
	var told []string
	for _, each := range said {
		if f.names(each.from) {
			told = append(told, each.peers()...)
		}
	}
	known := map[string]bool{}
	if len(told) == 0 || slices.ContainsFunc(told, func(peer string) bool { return f.peers[peer] }) {
		maps.Copy(known, f.peers)
	}
	return known
}

// ofDeployment returns the answers, except for those of servers that do not belong to the deployment. Call it with the
// lock held.
func (f *follower) ofDeployment() map[string]answer {
	all := maps.Clone(f.answers)
	maps.DeleteFunc(all, func(address string, _ answer) bool { return f.outsiders[address] })
	return all
}

// meet reports whether an address may be used: it is known, or there were few new ones.
func (f *follower) meet(address string) bool {
	if _, known := f.met[address]; !known && !f.names(address) && !f.newAddresses.Allow() {
		return false
	}
	f.met[address] = time.Now()
	return true
}

// forget forgets the addresses that were not in use for some time.
func (f *follower) forget() {
	f.mu.Lock()
	for address := range f.pollers {
		f.met[address] = time.Now()
	}
	f.mu.Unlock()
	if known := f.known.Load(); known != nil {
		for _, each := range known.servers() {
			f.met[each.Address] = time.Now()
		}
	}
	maps.DeleteFunc(f.met, func(_ string, at time.Time) bool { return time.Since(at) > forgetAddress })
}

// peersOf returns what servers are known by.
func peersOf(said []answer) map[string]bool {
	peers := map[string]bool{}
	for _, each := range said {
		for _, peer := range each.peers() {
			peers[peer] = true
		}
	}
	return peers
}

func anotherDeployment() *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The servers that answer belong to another Redis deployment. Check that spec.redis.addresses are those of your servers.",
		Err:     errors.New("no server that answers is known to the others"),
	}
}

func tooManyAddresses() *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The servers of the Redis deployment name too many different addresses. Check that spec.redis.addresses are those of your servers.",
		Err:     errors.New("too many new addresses"),
	}
}
