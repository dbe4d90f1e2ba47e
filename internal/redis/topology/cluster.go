// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// cluster is a Redis Cluster.
type cluster struct{ auth.Endpoint }

// commands implements deployment.
func (c cluster) commands() [][]any { return [][]any{{"cluster", "slots"}, {"cluster", "nodes"}} }

// parse implements deployment.
func (c cluster) parse(replies []any, address string) (reported response, err error) {
	for i, reply := range replies {
		refusal, refused := reply.(resp.Error)
		if refused && (i == 0 || strings.HasPrefix(string(refusal), noPermission)) {
			return response{}, clusterRefusal(refusal)
		}
	}
	reported.nodes, err = parseNodes(replies[0], replies[1], address)
	return reported, err
}

// noPermission begins the error reply to a command that the user may not run.
const noPermission = "NOPERM"

// clusterRefusal returns the error for a command that a node refused.
func clusterRefusal(refusal resp.Error) error {
	switch {
	case strings.HasPrefix(string(refusal), noPermission):
		return &failure.Error{
			Reason:  failure.ReasonPermissionDenied,
			Message: "The Redis user may not ask where keys are. Grant it +cluster|slots and +cluster|nodes on all nodes.",
			Err:     refusal,
		}
	case failure.IsUnsupported(refusal):
		return &failure.Error{
			Reason:  failure.ReasonWrongMode,
			Message: "The server is not a node of a Redis Cluster, or a proxy hides that it is. Write mode: Standalone in spec.redis.",
			Err:     refusal,
		}
	}
	return refusal
}

// merge implements deployment.
func (c cluster) merge(reported []response, _ int, _ bool, _ uint64) *view {
	var all []*nodes
	for _, each := range reported {
		if each.nodes != nil {
			all = append(all, each.nodes)
		}
	}
	if len(all) == 0 {
		return nil
	}
	v := mergeNodes(c.Endpoint, all)
	if len(v.masters) == 0 {
		v.err = slotsUncovered()
	}
	return v
}

func slotsUncovered() *failure.Error {
	return unreachable("The nodes of the Redis Cluster have no slots. Finish creating the cluster, or write mode: Standalone for a single server.",
		"no node has a slot")
}

// slotUncovered is the error for a key whose slot has no master.
func slotUncovered(slot uint16) *failure.Error {
	return unreachable("No node of the Redis Cluster has the slot of a key. Repair the cluster.",
		fmt.Sprintf("no node has slot %d", slot))
}

// explain implements deployment.
func (c cluster) explain(cause *failure.Error) *failure.Error { return cause }

// isMember implements deployment: a node is known by its ID, or by its address where nodes have no IDs.
func (c cluster) isMember(reported response, known map[string]bool) bool {
	return known[reported.nodes.self] || known[reported.from]
}

// wanted implements deployment: the nodes that the user names, which know best what belongs to the Cluster, and all
// masters, because only they report which of their slots are being moved.
func (c cluster) wanted(_ map[string]response, masters []auth.Endpoint) []string {
	wanted := addresses(c.Addresses())
	for _, each := range masters {
		wanted.add(each.Address)
	}
	return wanted
}
