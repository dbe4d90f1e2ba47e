// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaledjob decodes a ScaledJob and converts its spec into the types of other packages: the Redis server and
// database, the queues to read, the keys to subscribe to, and the scaling policy. Those packages do not depend on the
// API types.
package scaledjob

import (
	"math"
	"slices"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
)

// queueTypes maps the types of queues to those of the reader and the watcher.
var queueTypes = map[scaledjobv1.QueueType]struct {
	read  queue.Type
	class verify.Class
}{
	scaledjobv1.QueueList:      {queue.List, verify.ClassList},
	scaledjobv1.QueueStream:    {queue.Stream, verify.ClassStream},
	scaledjobv1.QueueSortedSet: {queue.SortedSet, verify.ClassSortedSet},
	scaledjobv1.QueueSet:       {queue.Set, verify.ClassSet},
	scaledjobv1.QueueHash:      {queue.Hash, verify.ClassHash},
}

// sourceOf returns the source to read for a ScaledJob in a namespace. Its errors are those of endpointOf.
func sourceOf(namespace string, spec *scaledjobv1.ScaledJobSpec, queues []scaledjobv1.Queue) (queue.Source, error) {
	endpoint, database, err := endpointOf(namespace, spec)
	if err != nil {
		return queue.Source{}, err
	}
	source := queue.Source{
		Endpoint: endpoint, Database: database, Tenant: namespace,
		Queues: make([]queue.Queue, len(queues)), CountLimit: countLimit(spec, queues),
	}
	for i, each := range queues {
		read := queue.Queue{
			Key: each.Name, Type: queueTypes[each.Type].read, InProgress: isInProgress(each),
		}
		if each.Stream != nil {
			read.Group = each.Stream.ConsumerGroup
		}
		if each.SortedSet != nil {
			read.Window, read.Unit = queue.Window(each.SortedSet.Window), queue.Unit(each.SortedSet.ScoreUnit)
		}
		source.Queues[i] = read
	}
	return source, nil
}

// countLimit returns how many messages of a queue have to be counted. More messages than are needed for maxReplicas
// Jobs and the deduction change nothing. Avg needs more of them, because other queues may be empty.
func countLimit(spec *scaledjobv1.ScaledJobSpec, queues []scaledjobv1.Queue) int64 {
	jobs := int64(spec.MaxReplicasOrDefault())
	if custom := spec.ScalingStrategy.Custom; custom != nil {
		jobs += min(max(custom.QueueLengthDeduction, 0), math.MaxInt64-jobs)
	}
	if spec.QueuesCalculation == scaledjobv1.CalculateAvg {
		jobs = product(jobs, int64(len(queues)))
	}
	limit := max(spec.ActivationThreshold, 0)
	for _, each := range queues {
		limit = max(limit, product(jobs, max(*each.Threshold, 1)))
	}
	return min(limit, math.MaxInt64-1) + 1
}

// product returns the product of two non-negative numbers, or the largest number if it overflows.
func product(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// keysOf returns the keys of a database to subscribe to, each once. A message is finished when it leaves a key whose
// role is InProgress, if there is one, and otherwise when it leaves any key.
func keysOf(database int, queues []scaledjobv1.Queue) []keyspace.Key {
	keys := make([]keyspace.Key, 0, len(queues))
	known := map[string]bool{}
	moves := slices.ContainsFunc(queues, isInProgress)
	for _, each := range queues {
		if !known[each.Name] {
			known[each.Name] = true
			keys = append(keys, keyspace.Key{
				Database: database, Name: each.Name,
				Class: queueTypes[each.Type].class, Final: !moves || isInProgress(each),
			})
		}
	}
	return keys
}

func isInProgress(each scaledjobv1.Queue) bool { return each.Role == scaledjobv1.RoleInProgress }
