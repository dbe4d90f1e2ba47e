// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// maxPollingInterval is the longest polling interval of a ScaledJob, in seconds.
const maxPollingInterval = 3600

// convertReplicas converts the minimum and the maximum. KEDA's minimum is a number of spare Jobs.
func (c *conversion) convertReplicas() {
	least, most := int32(0), kedaMaxReplicas
	if given := c.from.Spec.MinReplicaCount; given != nil {
		least = max(*given, 0)
	}
	switch given := c.from.Spec.MaxReplicaCount; {
	case given != nil:
		most = max(*given, 0)
		c.to.MaxReplicas = &most
	case least > 0:
		most += least
		c.to.MaxReplicas = &most
		c.comment("maxReplicas", fmt.Sprintf("KEDA's default of %d, which does not include minReplicaCount.", kedaMaxReplicas))
	}
	if least > most {
		c.comment("maxReplicas", fmt.Sprintf("minReplicaCount is %d; KEDA lowers it to the maximum.", least))
		least = most
	}
	c.setSpare(least)
}

// setSpare writes KEDA's minimum, for the strategies that have spare Jobs as those.
func (c *conversion) setSpare(least int32) {
	if least == 0 {
		return
	}
	switch strategy := c.strategy(); strategy {
	case scaledjobv1.StrategyAccurate, scaledjobv1.StrategyCustom:
		c.to.MinReplicas = least
		c.comment("minReplicas", fmt.Sprintf("KEDA keeps so many Jobs in addition to those for messages. With %s they are at least so "+
			"many, with those for messages.", strategy))
	default:
		c.to.SpareReplicas = least
	}
}

// strategy is the strategy that corresponds to KEDA's.
func (c *conversion) strategy() scaledjobv1.ScalingStrategyType {
	switch given := c.from.Spec.ScalingStrategy; given.Strategy {
	case "accurate":
		return scaledjobv1.StrategyAccurate
	case "eager":
		return scaledjobv1.StrategyEager
	case "custom":
		if _, err := strconv.ParseFloat(given.CustomScalingRunningJobPercentage, 64); err == nil {
			return scaledjobv1.StrategyCustom
		}
	}
	return scaledjobv1.StrategyDefault
}

// countsOnlyWaiting reports whether messages in progress do not count with the strategy.
func (c *conversion) countsOnlyWaiting() bool { return c.strategy() != scaledjobv1.StrategyDefault }

// convertStrategy converts the strategy.
func (c *conversion) convertStrategy() {
	given, path := &c.from.Spec.ScalingStrategy, "scalingStrategy.type"
	strategy := c.strategy()
	c.to.ScalingStrategy.Type = strategy
	switch strategy {
	case scaledjobv1.StrategyAccurate:
		c.comment(path, "KEDA creates a second Job for a message whose Pod runs and has not taken it yet. Here a Job counts for its messages "+
			"until its Pod has been ready for claimGraceSeconds, 10 by default. Set that to more than a worker needs to take its message.")
	case scaledjobv1.StrategyEager:
		c.comment(path, "KEDA counts pending Jobs twice, and creates fewer. Here there are maxReplicas Jobs while a message waits.")
	case scaledjobv1.StrategyCustom:
		c.comment(path, "KEDA's formula can exceed maxReplicaCount. Here there are never more than maxReplicas Jobs.")
		c.convertCustom()
	case scaledjobv1.StrategyDefault:
		c.to.ScalingStrategy.Type = ""
		c.explainDefault()
	}
	if len(given.PendingPodConditions) > 0 {
		c.skip("spec.scalingStrategy.pendingPodConditions", "The operator looks only at whether a Pod is ready. Let the worker's readiness "+
			"probe succeed when it has taken its message, and set spec.scalingStrategy.claimGraceSeconds to 0.")
	}
}

// explainDefault notes where KEDA's default strategy is used although another one is named.
func (c *conversion) explainDefault() {
	switch given := c.from.Spec.ScalingStrategy.Strategy; given {
	case "", "default":
	case "custom":
		c.comment("threshold", "KEDA uses its default strategy, because customScalingRunningJobPercentage is not a number.")
	default:
		c.skip("spec.scalingStrategy.strategy", "KEDA does not have this strategy. Write Default, Accurate, Eager or Custom in "+
			"spec.scalingStrategy.type.")
	}
}

// convertCustom converts the deductions.
func (c *conversion) convertCustom() {
	given := &c.from.Spec.ScalingStrategy
	custom := &scaledjobv1.CustomStrategy{}
	c.to.ScalingStrategy.Custom = custom
	if deduction := given.CustomScalingQueueLengthDeduction; deduction != nil {
		custom.QueueLengthDeduction = int64(max(*deduction, 0))
	}
	const path = "scalingStrategy.custom.runningJobPercentage"
	share, _ := strconv.ParseFloat(given.CustomScalingRunningJobPercentage, 64) // The strategy is Custom only if it is a number.
	percentage := math.Round(share * 100)
	if math.IsNaN(percentage) || percentage < 0 || percentage > 100 {
		c.skip("spec.scalingStrategy.customScalingRunningJobPercentage", "It is not between 0 and 1. Write a percentage from 0 to 100 in "+
			"spec."+path+".")
		return
	}
	custom.RunningJobPercentage = int32(percentage)
	if percentage != share*100 {
		c.comment(path, "KEDA has "+given.CustomScalingRunningJobPercentage+"; here it is a whole percentage.")
	}
}

// convertIntervals converts the polling interval and the limits of the history.
func (c *conversion) convertIntervals() {
	if interval := c.from.Spec.PollingInterval; interval != nil {
		c.to.PollingIntervalSeconds = min(max(*interval, 1), maxPollingInterval)
		c.comment("pollingIntervalSeconds", "How often the queue is read without any event. Jobs for new messages do not wait for it.")
		if *interval > maxPollingInterval {
			c.comment("pollingIntervalSeconds", fmt.Sprintf("KEDA has %d.", *interval))
		}
	}
	c.to.SuccessfulJobsHistoryLimit = c.from.Spec.SuccessfulJobsHistoryLimit
	c.to.FailedJobsHistoryLimit = c.from.Spec.FailedJobsHistoryLimit
}

// convertRollout converts what happens to the Jobs of an earlier template. Without a strategy, KEDA deletes them.
func (c *conversion) convertRollout() {
	strategy, path := c.from.Spec.Rollout.Strategy, "spec.rollout.strategy"
	if deprecated := c.from.Spec.RolloutStrategy; deprecated != "" {
		strategy, path = deprecated, "spec.rolloutStrategy"
	}
	switch strategy {
	case "gradual":
		return
	case "", "default", "immediate":
		c.to.Rollout.Strategy = scaledjobv1.RolloutImmediate
		c.comment("rollout.strategy", "KEDA deletes all earlier Jobs at each edit of the spec. Here an edit of jobTemplate replaces the "+
			"unfinished Jobs of the earlier template. Remove rollout to let them finish.")
	default:
		c.skip(path, "KEDA does not have this strategy. Write Gradual, Unstarted or Immediate in spec.rollout.strategy.")
	}
	if strings.EqualFold(c.from.Spec.Rollout.PropagationPolicy, string(scaledjobv1.PropagationForeground)) {
		c.to.Rollout.PropagationPolicy = scaledjobv1.PropagationForeground
	}
}
