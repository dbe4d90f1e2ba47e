// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const (
	// mostNewAddresses is how many addresses may be new at once, and newAddressInterval how often there may be one more.
	// An address that was not named for forgetAddress is new again.
	mostNewAddresses   = mostPolled + mostMasters
	newAddressInterval = time.Second
	forgetAddress      = 10 * time.Minute
)

// members returns the responses of the servers that belong to the deployment, and records which ones do not. An
// address, such as that of a Pod, may by now be that of a server of another deployment. So a server belongs to the
// deployment if the user names it, or if a server that belongs to it knows it, or did before.
func (w *watcher) members(reported []response) (believed []response) {
	known := w.formerPeers(reported)
	w.nonMembers = map[string]bool{}
	for _, each := range reported {
		w.nonMembers[each.from] = true
	}
	for before := -1; before < len(believed); {
		before = len(believed)
		for _, each := range reported {
			if !w.nonMembers[each.from] || !w.isConfigured(each.from) && !w.isMember(each, known) {
				continue
			}
			delete(w.nonMembers, each.from)
			believed = append(believed, each)
			for _, peer := range each.peers() {
				known[peer] = true
			}
		}
	}
	return believed
}

// ofOtherClusters returns the addresses of nodes that report an ID which no node of this Cluster has. The nodes of this
// Cluster may not know yet that the address is no longer that of one of them.
func (w *watcher) ofOtherClusters(reported []response) map[string]bool {
	found := map[string]bool{}
	for _, each := range reported {
		if w.nonMembers[each.from] && each.nodes != nil && each.nodes.self != "" {
			found[each.from] = true
		}
	}
	return found
}

// isConfigured reports whether the user names an address.
func (w *watcher) isConfigured(address string) bool {
	return slices.Contains(w.endpoint.Addresses(), address)
}

// formerPeers returns the IDs by which the servers of the deployment were known. It is empty if those that the user
// names know others, but none of these: then the addresses lead to another deployment now.
func (w *watcher) formerPeers(reported []response) map[string]bool {
	var named []string
	for _, each := range reported {
		if w.isConfigured(each.from) {
			named = append(named, each.peers()...)
		}
	}
	known := map[string]bool{}
	if len(named) == 0 || slices.ContainsFunc(named, func(peer string) bool { return w.peers[peer] }) {
		maps.Copy(known, w.peers)
	}
	return known
}

// memberResponses returns the responses of the servers that belong to the deployment. Call it with the lock held.
func (w *watcher) memberResponses() map[string]response {
	all := maps.Clone(w.responses)
	maps.DeleteFunc(all, func(address string, _ response) bool { return w.nonMembers[address] })
	return all
}

// mayUse reports whether an address may be used: it is known, or there were few new ones. If so, it is known from now
// on.
func (w *watcher) mayUse(address string) bool {
	if _, known := w.lastUsed[address]; !known && !w.isConfigured(address) && !w.newAddresses.Allow() {
		return false
	}
	w.lastUsed[address] = time.Now()
	return true
}

// forgetAddresses forgets the addresses that were not in use for some time.
func (w *watcher) forgetAddresses() {
	w.mu.Lock()
	for address := range w.pollers {
		w.lastUsed[address] = time.Now()
	}
	w.mu.Unlock()
	if known := w.known.Load(); known != nil {
		for _, each := range known.servers() {
			w.lastUsed[each.Address] = time.Now()
		}
	}
	maps.DeleteFunc(w.lastUsed, func(_ string, at time.Time) bool { return time.Since(at) > forgetAddress })
}

// peersOf returns the IDs of all servers that these servers know.
func peersOf(reported []response) map[string]bool {
	peers := map[string]bool{}
	for _, each := range reported {
		for _, peer := range each.peers() {
			peers[peer] = true
		}
	}
	return peers
}

func anotherDeployment() *failure.Error {
	return unreachable("The servers that answer belong to another Redis deployment. Check that spec.redis.addresses are those of your servers.",
		"no server that answers is known to the others")
}

func tooManyAddresses() *failure.Error {
	return unreachable("The servers of the Redis deployment name too many different addresses. Check that spec.redis.addresses are those of your servers.",
		"too many new addresses")
}
