// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"fmt"
	"slices"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// unknownValues returns the values of a spec that this version of the operator does not know, each with its path. To
// guess what they mean might create Jobs that nobody asked for. It leaves out spec.notifications: without it the queue
// is polled, which is always right.
func unknownValues(spec *scaledjobv1.ScaledJobSpec) []string {
	found := slices.Concat(
		unknown("spec.queuesCalculation", spec.QueuesCalculation, scaledjobv1.CalculateSum, scaledjobv1.CalculateMax,
			scaledjobv1.CalculateMin, scaledjobv1.CalculateAvg),
		unknown("spec.scalingStrategy.type", spec.ScalingStrategy.Type, scaledjobv1.StrategyDefault, scaledjobv1.StrategyAccurate,
			scaledjobv1.StrategyEager, scaledjobv1.StrategyCustom),
		unknown("spec.rollout.strategy", spec.Rollout.Strategy, scaledjobv1.RolloutGradual, scaledjobv1.RolloutUnstarted,
			scaledjobv1.RolloutImmediate),
		unknown("spec.rollout.propagationPolicy", spec.Rollout.PropagationPolicy, scaledjobv1.PropagationBackground,
			scaledjobv1.PropagationForeground),
	)
	if spec.Redis != nil {
		found = append(found, unknownOfRedis(spec.Redis)...)
	}
	for i := range spec.Queues {
		found = append(found, unknownOfQueue(fmt.Sprintf("spec.queues[%d]", i), &spec.Queues[i])...)
	}
	return found
}

func unknownOfRedis(redis *scaledjobv1.Redis) []string {
	found := unknown("spec.redis.mode", redis.Mode, scaledjobv1.RedisStandalone, scaledjobv1.RedisSentinel, scaledjobv1.RedisCluster)
	found = append(found, unknownOfTLS("spec.redis.tls", redis.TLS)...)
	if redis.Sentinel != nil {
		found = append(found, unknownOfTLS("spec.redis.sentinel.tls", redis.Sentinel.TLS)...)
	}
	return found
}

func unknownOfTLS(path string, tls *scaledjobv1.RedisTLS) []string {
	if tls == nil {
		return nil
	}
	return unknown(path+".mode", tls.Mode, scaledjobv1.RedisTLSEnabled, scaledjobv1.RedisTLSDisabled)
}

func unknownOfQueue(path string, queue *scaledjobv1.Queue) []string {
	found := slices.Concat(
		unknown(path+".type", queue.Type, scaledjobv1.QueueList, scaledjobv1.QueueStream, scaledjobv1.QueueSortedSet,
			scaledjobv1.QueueSet, scaledjobv1.QueueHash),
		unknown(path+".role", queue.Role, scaledjobv1.RoleWaiting, scaledjobv1.RoleInProgress),
	)
	if set := queue.SortedSet; set != nil {
		found = append(found, unknown(path+".sortedSet.window", set.Window, scaledjobv1.WindowAll, scaledjobv1.WindowDue,
			scaledjobv1.WindowLive)...)
		found = append(found, unknown(path+".sortedSet.scoreUnit", set.ScoreUnit, scaledjobv1.ScoreSeconds,
			scaledjobv1.ScoreMilliseconds, scaledjobv1.ScoreNanoseconds, scaledjobv1.ScoreBullMQ)...)
	}
	return found
}

// unknown returns the path with the value, unless the value is empty, which means the default, or one of those known.
func unknown[T ~string](path string, value T, known ...T) []string {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return []string{path + ": " + string(value)}
}
