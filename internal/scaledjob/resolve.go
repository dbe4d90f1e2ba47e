// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"slices"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Resolved is what the spec of a ScaledJob asks for, in the words of the packages that serve it. A reconcile resolves the spec once.
type Resolved struct {
	// Queues are the queues of the spec, with their defaults.
	Queues []scaledjobv1.Queue
	// Source is what to read: the Redis server, the database, and the queues there.
	Source queue.Source
	// Keys are the keys to listen to, each once.
	Keys []keyspace.Key
	// Policy says how many Jobs are due for what the queues hold.
	Policy scaling.Policy
	// Err is an [*failure.Error] if the address of the server is not of the form host:port. Then there is no Source and no key.
	Err error
}

// Resolve reads the spec.
func Resolve(sj *scaledjobv1.ScaledJob) Resolved {
	queues := sj.Spec.AllQueues()
	resolved := Resolved{Queues: queues, Policy: policyOf(&sj.Spec)}
	if resolved.Source, resolved.Err = sourceOf(sj.Namespace, &sj.Spec, queues); resolved.Err == nil {
		resolved.Keys = keysOf(resolved.Source.Database, queues)
	}
	return resolved
}

// Contents are what the queues hold, by these counts, as the decision sees them.
func (r *Resolved) Contents(counts queue.Counts) []scaling.Queue {
	held := make([]scaling.Queue, len(counts))
	for i, count := range counts {
		held[i] = scaling.Queue{Waiting: count.Waiting, InProgress: count.InProgress, Threshold: *r.Queues[i].Threshold}
	}
	return held
}

// TellsProgress says whether Redis tells of each queue how far its consumers have come: it does for streams with a group.
func (r *Resolved) TellsProgress() bool {
	return !slices.ContainsFunc(r.Queues, func(each scaledjobv1.Queue) bool { return each.Stream == nil })
}

// GrowsUnannounced says whether a queue grows without a command that writes to it, as messages fall due.
func GrowsUnannounced(each scaledjobv1.Queue) bool {
	return each.SortedSet != nil && each.SortedSet.Window == scaledjobv1.WindowDue
}
