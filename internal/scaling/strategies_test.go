// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"

	. "github.com/onsi/gomega"
)

// The examples in the KEDA documentation. Where KEDA says running, the operator counts claimed Jobs: a running Job has
// taken its message.
func TestExamplesOfKEDA(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queues          []Queue
		active, claimed int64
		policy          Policy
		create          int32
	}{
		"10 messages, at most 3":                    {of(10, 1), 0, 0, between(0, 3), 3},
		"10 messages, 2 for a Job, at most 3":       {of(10, 2), 0, 0, between(0, 3), 3},
		"10 messages, 1 Job, at most 3":             {of(10, 1), 1, 1, between(0, 3), 2},
		"10 messages, at most 100":                  {of(10, 1), 0, 0, between(0, 100), 10},
		"4 messages, 5 for a Job":                   {of(4, 5), 0, 0, between(0, 3), 1},
		"default: 3 on the queue":                   {of(3, 1), 0, 0, between(0, 100), 3},
		"default: 3 on the queue, 3 Jobs":           {of(3, 1), 3, 3, between(0, 100), 0},
		"default: 6 on the queue, 3 Jobs":           {of(6, 1), 3, 3, between(0, 100), 3},
		"default: 3 acknowledged, 3 left, 3 Jobs":   {of(3, 1), 3, 3, between(0, 100), 0},
		"accurate: up to the maximum":               {of(8, 1), 5, 5, Policy{MaxReplicas: 10, Strategy: StrategyAccurate}, 5},
		"accurate: pending Jobs are for messages":   {of(5, 1), 4, 2, Policy{MaxReplicas: 10, Strategy: StrategyAccurate}, 3},
		"accurate: no Job pending":                  {of(3, 1), 2, 2, Policy{MaxReplicas: 10, Strategy: StrategyAccurate}, 3},
		"custom: a deduction and half of those":     {of(9, 1), 4, 4, Policy{MaxReplicas: 100, Strategy: StrategyCustom, Deduction: 1, ClaimedPercentage: 50}, 6},
		"custom: nothing configured is as accurate": {of(9, 1), 4, 4, Policy{MaxReplicas: 100, Strategy: StrategyCustom}, 9},
		"custom: half of 3 is 1":                    {of(3, 1), 3, 3, Policy{MaxReplicas: 100, Strategy: StrategyCustom, ClaimedPercentage: 50}, 2},
		"custom: no more than the maximum":          {of(500, 1), 30, 30, Policy{MaxReplicas: 100, Strategy: StrategyCustom, Deduction: 1}, 70},
		"a minimum of 2, 3 new messages (KEDA: 3)":  {of(3, 1), 2, 2, between(2, 100), 1},
		"the same, and the 2 hold messages":         {of(3, 1), 2, 2, Policy{MinReplicas: 2, MaxReplicas: 100, Strategy: StrategyAccurate}, 3},
		"eager: one message":                        {of(1, 1), 0, 0, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 10},
		"eager: 3 running, 3 new":                   {of(3, 1), 3, 3, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 7},
		"eager: none":                               {of(0, 1), 3, 3, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 0},
		"several triggers, the sum":                 {append(of(10, 1), of(20, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Sum}, 20},
		"several triggers, the largest":             {append(of(10, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Max}, 15},
		"several triggers, the smallest":            {append(of(10, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Min}, 10},
		"several triggers, the mean":                {append(of(10, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Avg}, 13},
		"several triggers, one inactive":            {append(of(0, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Min}, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := Observation{Queues: c.queues, Active: c.active, Claimed: c.claimed}
			NewWithT(t).Expect(Decide(seen, c.policy).Create).To(Equal(c.create))
		})
	}
}

// Cases that KEDA miscounts, according to its code and its users, and what this operator creates.
func TestWhereKEDAMiscounts(t *testing.T) {
	t.Parallel()
	custom := Policy{MaxReplicas: 100, Strategy: StrategyCustom, ClaimedPercentage: 50}
	for name, c := range map[string]struct {
		seen   Observation
		policy Policy
		keda   int32
		create int32
	}{
		"a minimum of 2 idle Jobs, 1 message":            {Observation{of(1, 1), 2, 0}, between(2, 10), 1, 0},
		"a long Job has popped its message, 1 is new":    {Observation{of(1, 1), 1, 1}, Policy{MaxReplicas: 100, Strategy: StrategyAccurate}, 0, 1},
		"the same, its message being counted":            {Observation{[]Queue{{1, 1, 1}}, 1, 0}, between(0, 100), 0, 1},
		"Pods run, and have not popped yet":              {Observation{of(3, 1), 3, 0}, Policy{MaxReplicas: 100, Strategy: StrategyAccurate}, 3, 0},
		"eager counts pending Jobs twice":                {Observation{of(4, 1), 4, 0}, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 2, 6},
		"custom forgets what runs":                       {Observation{of(100, 1), 100, 100}, custom, 50, 0},
		"accurate: the minimum's Jobs hide the messages": {Observation{of(5, 1), 5, 0}, Policy{MinReplicas: 5, MaxReplicas: 50, Strategy: StrategyAccurate}, 0, 0},
		"the same, once these Jobs have claimed 5":       {Observation{of(5, 1), 5, 5}, Policy{MinReplicas: 5, MaxReplicas: 50, Strategy: StrategyAccurate}, 0, 5},
		"a minimum comes before the messages":            {Observation{of(10, 1), 0, 0}, between(2, 20), 2, 10},
		"a threshold of 0 never creates":                 {Observation{of(10, 0), 0, 0}, between(0, 20), 0, 10},
		"a negative lag":                                 {Observation{of(-1, 1), 0, 0}, between(0, 20), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(Decide(c.seen, c.policy).Create).To(Equal(c.create), "KEDA creates %d", c.keda)
		})
	}
}

func TestCountsClaimed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, strategy := range strategies {
		policy := Policy{MaxReplicas: 20, Strategy: strategy}
		none := Decide(Observation{Queues: of(5, 1), Active: 4}, policy)
		all := Decide(Observation{Queues: of(5, 1), Active: 4, Claimed: 4}, policy)
		g.Expect(none != all).To(Equal(strategy.CountsClaimed()), string(strategy))
	}
}
