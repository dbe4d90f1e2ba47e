// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaledjob reads a ScaledJob, however it was stored, and says what its spec asks for: which Redis server and keys, which queues,
// which policy. It speaks the words of the packages that connect, listen, read and decide, none of which knows a spec.
package scaledjob

import (
	"math"
	"slices"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// queueTypes are the types of keys as the reader and the watcher name them.
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

// sourceOf is what is read for a ScaledJob in a namespace. An address that is not of the form host:port is an error.
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

// countLimit is how many messages of a queue make any difference: more than are due for maxReplicas Jobs, and those that are deducted, are as
// good as these. In a mean with empty queues it takes more of them.
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

// product is that of two numbers that are not negative, or the largest number where it is more.
func product(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// keysOf are the keys of a database to listen to, each once. A message is done with when it leaves a key in which messages are in progress, if there is one,
// and else when it leaves any.
func keysOf(database int, queues []scaledjobv1.Queue) []keyspace.Key {
	keys := make([]keyspace.Key, 0, len(queues))
	known := map[string]bool{}
	moves := slices.ContainsFunc(queues, isInProgress)
	for _, each := range queues {
		if !known[each.Name] {
			known[each.Name] = true
			keys = append(keys, keyspace.Key{
				Database: database, Name: each.Name, Class: queueTypes[each.Type].class, Final: !moves || isInProgress(each),
			})
		}
	}
	return keys
}

func isInProgress(each scaledjobv1.Queue) bool { return each.Role == scaledjobv1.RoleInProgress }

// policyOf is what the user asked for.
func policyOf(spec *scaledjobv1.ScaledJobSpec) scaling.Policy {
	policy := scaling.Policy{
		ActivationThreshold: spec.ActivationThreshold,
		MinReplicas:         spec.MinReplicas,
		MaxReplicas:         spec.MaxReplicasOrDefault(),
		Calculation:         scaling.Calculation(spec.QueuesCalculation),
		Strategy:            scaling.Strategy(spec.ScalingStrategy.Type),
	}
	if custom := spec.ScalingStrategy.Custom; custom != nil {
		policy.Deduction, policy.ClaimedPercentage = custom.QueueLengthDeduction, custom.RunningJobPercentage
	}
	return policy
}
