// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"slices"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/policy"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Resolved is the spec of a ScaledJob, converted into the types of other packages. A reconcile resolves the spec once.
type Resolved struct {
	// Queues are the queues of the spec, with defaults applied.
	Queues []scaledjobv1.Queue
	// Source is the Redis server, the database and the queues to read.
	Source queue.Source
	// Keys are the keys to subscribe to, each once.
	Keys []keyspace.Key
	// Policy determines how many Jobs are due.
	Policy scaling.Policy
	// Err is an [*failure.Error] if the address of the server does not have the form host:port, or if the spec has
	// credentials and does not say whether to use TLS. Source and Keys are then empty.
	Err error
}

// Resolve converts the spec of the ScaledJob.
func Resolve(sj *scaledjobv1.ScaledJob) Resolved {
	queues := sj.Spec.AllQueues()
	resolved := Resolved{Queues: queues, Policy: policy.Of(&sj.Spec)}
	if resolved.Source, resolved.Err = sourceOf(sj.Namespace, &sj.Spec, queues); resolved.Err == nil {
		resolved.Keys = keysOf(resolved.Source.Database, queues)
	}
	return resolved
}

// Contents converts the counts of the queues into the input of the decision.
func (r *Resolved) Contents(counts queue.Counts) []scaling.Queue {
	held := make([]scaling.Queue, len(counts))
	for i, count := range counts {
		held[i] = scaling.Queue{Waiting: count.Waiting, InProgress: count.InProgress, Threshold: *r.Queues[i].Threshold}
	}
	return held
}

// ReportsProgress reports whether Redis reports the progress of the consumers of every queue, as it does for streams
// with a consumer group.
func (r *Resolved) ReportsProgress() bool {
	return !slices.ContainsFunc(r.Queues, func(each scaledjobv1.Queue) bool { return each.Stream == nil })
}

// GrowsUnannounced reports whether a queue can grow without a write command, because messages become due with time.
func GrowsUnannounced(each scaledjobv1.Queue) bool {
	return each.SortedSet != nil && each.SortedSet.Window == scaledjobv1.WindowDue
}
