// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// useLife is how long after the last read of a key its master is asked.
const useLife = time.Minute

// cluster is a Redis Cluster.
type cluster struct {
	auth.Endpoint
	used *usage
}

// server implements deployment.
func (c cluster) server(address string) auth.Endpoint { return c.ServerAt(address) }

// ask implements deployment.
func (c cluster) ask(ctx context.Context, conn *connection.Conn) (answer, error) {
	replies, err := conn.Pipeline(ctx, []any{"cluster", "slots"}, []any{"cluster", "nodes"})
	if err != nil {
		return answer{}, err
	}
	if refusal, refused := replies[0].(resp.Error); refused {
		return answer{}, clusterRefusal(refusal)
	}
	said, err := parseNodes(replies[0], replies[1], conn.Endpoint().Address)
	return answer{nodes: said}, err
}

// clusterRefusal returns the error for CLUSTER SLOTS that a server refused.
func clusterRefusal(refusal resp.Error) error {
	switch {
	case strings.HasPrefix(string(refusal), "NOPERM"):
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

// decide implements deployment.
func (c cluster) decide(said []answer, _ int, _ *view) *view {
	var all []*nodes
	for _, each := range said {
		if each.nodes != nil {
			all = append(all, each.nodes)
		}
	}
	if len(all) == 0 {
		return nil
	}
	v := merge(c.Endpoint, all)
	if len(v.masters) == 0 {
		v.err = slotsUncovered()
	}
	return v
}

func slotsUncovered() *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "The nodes of the Redis Cluster have no slots. Finish creating the cluster, or write mode: Standalone for a single server.",
		Err:     errors.New("no node has a slot"),
	}
}

// slotUncovered is the error for a key whose slot has no master.
func slotUncovered(slot uint16) *failure.Error {
	return &failure.Error{
		Reason:  failure.ReasonUnreachable,
		Message: "No node of the Redis Cluster has the slot of a key. Repair the cluster.",
		Err:     fmt.Errorf("no node has slot %d", slot),
	}
}

// explain implements deployment.
func (c cluster) explain(cause *failure.Error) *failure.Error { return cause }

// wanted implements deployment: the masters in use, because only they tell which of their slots are being moved. If one
// does not answer, also the nodes that the user names, and other masters.
func (c cluster) wanted(answers []answer, known *view) []string {
	wanted := c.mastersInUse(known)
	if len(wanted) == 0 || slices.ContainsFunc(answers, func(a answer) bool { return a.err != nil }) {
		wanted = append(wanted, c.Addresses()...)
		if known != nil {
			for _, each := range known.masters {
				wanted = append(wanted, each.Address)
			}
		}
	}
	var all []string
	for _, address := range wanted {
		if len(all) < mostAsked && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// mastersInUse returns the masters that are in use and still masters.
func (c cluster) mastersInUse(known *view) []string {
	used := c.used.since(time.Now().Add(-useLife))
	return slices.DeleteFunc(used, func(address string) bool {
		return known == nil || !slices.ContainsFunc(known.masters, func(is auth.Endpoint) bool { return is.Address == address })
	})
}

// usage records which masters are in use. The zero value is ready. It is safe for concurrent use.
type usage struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (u *usage) note(address string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = map[string]time.Time{}
	}
	u.at[address] = now
}

// since returns the masters that were used since a time, and forgets the others.
func (u *usage) since(then time.Time) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var found []string
	for address, at := range u.at {
		if at.Before(then) {
			delete(u.at, address)
		} else {
			found = append(found, address)
		}
	}
	slices.Sort(found)
	return found
}
