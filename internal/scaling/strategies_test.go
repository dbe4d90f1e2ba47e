// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// The examples in the KEDA documentation. Where KEDA says running, the operator counts claimed Jobs: a running Job has
// taken its message.
func TestExamplesOfKEDA(t *testing.T) {
	type row struct {
		queues          []Queue
		active, claimed int64
		policy          Policy
		create          int32
	}
	bubble.Each(t, map[string]row{
		"10 messages, at most 3":                       {of(10, 1), 0, 0, between(0, 3), 3},
		"10 messages, 2 for a Job, at most 3":          {of(10, 2), 0, 0, between(0, 3), 3},
		"10 messages, 1 Job, at most 3":                {of(10, 1), 1, 1, between(0, 3), 2},
		"10 messages, at most 100":                     {of(10, 1), 0, 0, between(0, 100), 10},
		"4 messages, 5 for a Job":                      {of(4, 5), 0, 0, between(0, 3), 1},
		"default: 3 on the queue":                      {of(3, 1), 0, 0, between(0, 100), 3},
		"default: 3 on the queue, 3 Jobs":              {of(3, 1), 3, 3, between(0, 100), 0},
		"default: 6 on the queue, 3 Jobs":              {of(6, 1), 3, 3, between(0, 100), 3},
		"default: 3 acknowledged, 3 left, 3 Jobs":      {of(3, 1), 3, 3, between(0, 100), 0},
		"accurate: up to the maximum":                  {of(8, 1), 5, 5, Policy{MaxReplicas: 10, Strategy: StrategyAccurate}, 5},
		"accurate: pending Jobs are for messages":      {of(5, 1), 4, 2, Policy{MaxReplicas: 10, Strategy: StrategyAccurate}, 3},
		"accurate: no Job pending":                     {of(3, 1), 2, 2, Policy{MaxReplicas: 10, Strategy: StrategyAccurate}, 3},
		"custom: a deduction and half of those":        {of(9, 1), 4, 4, Policy{MaxReplicas: 100, Strategy: StrategyCustom, Deduction: 1, ClaimedPercentage: 50}, 6},
		"custom: nothing configured is as accurate":    {of(9, 1), 4, 4, Policy{MaxReplicas: 100, Strategy: StrategyCustom}, 9},
		"custom: half of 3 is 1":                       {of(3, 1), 3, 3, Policy{MaxReplicas: 100, Strategy: StrategyCustom, ClaimedPercentage: 50}, 2},
		"custom: no more than the maximum":             {of(500, 1), 30, 30, Policy{MaxReplicas: 100, Strategy: StrategyCustom, Deduction: 1}, 70},
		"a minimum of 2, 3 new messages (KEDA: 3)":     {of(3, 1), 2, 2, between(2, 100), 1},
		"the same, and the 2 hold messages":            {of(3, 1), 2, 2, Policy{MinReplicas: 2, MaxReplicas: 100, Strategy: StrategyAccurate}, 3},
		"spare: 2, 3 new messages (KEDA's minimum: 5)": {of(3, 1), 2, 2, spare(2), 3},
		"spare: 2, none":                               {of(0, 1), 0, 0, spare(2), 2},
		"eager: one message":                           {of(1, 1), 0, 0, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 10},
		"eager: 3 running, 3 new":                      {of(3, 1), 3, 3, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 7},
		"eager: none":                                  {of(0, 1), 3, 3, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 0},
		"several triggers, the sum":                    {append(of(10, 1), of(20, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Sum}, 20},
		"several triggers, the largest":                {append(of(10, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Max}, 15},
		"several triggers, the smallest":               {append(of(10, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Min}, 10},
		"several triggers, the mean":                   {append(of(10, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Avg}, 13},
		"several triggers, one inactive":               {append(of(0, 1), of(30, 2)...), 0, 0, Policy{MaxReplicas: 100, Calculation: Min}, 15},
	}, func(_ *testing.T, g Gomega, c row) {
		seen := Observation{Queues: c.queues, Active: c.active, Claimed: c.claimed}
		g.Expect(Decide(seen, c.policy).Create).To(Equal(c.create))
	})
}

// spare returns a policy with this number of spare Jobs, and at most ten Jobs.
func spare(jobs int32) Policy { return Policy{SpareReplicas: jobs, MaxReplicas: 10} }

func TestSpareReplicas(t *testing.T) {
	inProgress := []Queue{{Waiting: 1, InProgress: 3, Threshold: 1}}
	with := func(change func(*Policy)) Policy {
		policy := spare(2)
		change(&policy)
		return policy
	}
	type row struct {
		queues []Queue
		policy Policy
		want   Decision
	}
	bubble.Each(t, map[string]row{
		"beyond what waits and is in progress": {inProgress, spare(2), Decision{6, 6, false}},
		"within the maximum":                   {of(9, 1), spare(2), Decision{10, 10, false}},
		"the maximum is for messages":          {of(11, 1), spare(2), Decision{10, 10, true}},
		"not added to the minimum":             {of(0, 1), with(func(p *Policy) { p.MinReplicas = 2 }), Decision{2, 2, false}},
		"below the minimum":                    {of(1, 1), with(func(p *Policy) { p.MinReplicas = 5 }), Decision{5, 5, false}},
		"while messages are not activated":     {of(3, 1), with(func(p *Policy) { p.ActivationThreshold = 5 }), Decision{2, 2, false}},
		"eager":                                {of(0, 1), with(func(p *Policy) { p.Strategy = StrategyEager }), Decision{2, 2, false}},
		"no effect if claimed Jobs count":      {of(3, 1), with(func(p *Policy) { p.Strategy = StrategyAccurate }), Decision{3, 3, false}},
		"negative":                             {of(3, 1), spare(-2), Decision{3, 3, false}},
	}, func(_ *testing.T, g Gomega, c row) {
		g.Expect(Decide(Observation{Queues: c.queues}, c.policy)).To(Equal(c.want))
	})
}

// A spare Job becomes ready without a message. Strategies that count it as claimed then must not add spare Jobs: as the
// formula would, each would get another one, up to the maximum.
func TestSpareReplicasDoNotRunAway(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	settle := func(policy Policy, formula func(active int64) int64) (active int64) {
		for range 2 * policy.MaxReplicas {
			active = max(active, min(formula(active), int64(policy.MaxReplicas)))
		}
		return active
	}
	for _, strategy := range strategies {
		policy := Policy{SpareReplicas: 1, MaxReplicas: 50, Strategy: strategy}
		jobs := settle(policy, func(active int64) int64 {
			return int64(Decide(Observation{Queues: of(0, 1), Active: active, Claimed: active}, policy).Desired)
		})
		g.Expect(jobs).To(BeNumerically("<=", 1), string(strategy))
	}
	runaway := settle(Policy{MaxReplicas: 50}, func(active int64) int64 { return active + 1 })
	g.Expect(runaway).To(BeEquivalentTo(50), "claimed + due + spare")
}

// Only as many Jobs start at the same time as MaxPendingReplicas says.
func TestStartable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Policy{}.Startable(1000)).To(BeEquivalentTo(math.MaxInt64))
	g.Expect(Policy{MaxPendingReplicas: 3}.Startable(0)).To(BeEquivalentTo(3))
	g.Expect(Policy{MaxPendingReplicas: 3}.Startable(2)).To(BeEquivalentTo(1))
	g.Expect(Policy{MaxPendingReplicas: 3}.Startable(5)).To(BeZero())
	g.Expect(Policy{MaxPendingReplicas: 3}.Startable(-5)).To(BeEquivalentTo(3))
}

// Messages that have waited for maxWaitSeconds get their Jobs below the activation threshold as well.
func TestOverdue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	policy := Policy{ActivationThreshold: 50, MaxReplicas: 10}
	g.Expect(Decide(Observation{Queues: of(12, 5)}, policy)).To(Equal(Decision{0, 0, false}))
	g.Expect(Decide(Observation{Queues: of(12, 5), Overdue: true}, policy)).To(Equal(Decision{3, 3, false}))
	g.Expect(Decide(Observation{Queues: of(0, 5), Overdue: true}, policy)).To(Equal(Decision{0, 0, false}))
}

// Cases that KEDA miscounts, according to its code and its users, and what this operator creates.
func TestWhereKEDAMiscounts(t *testing.T) {
	custom := Policy{MaxReplicas: 100, Strategy: StrategyCustom, ClaimedPercentage: 50}
	type row struct {
		seen   Observation
		policy Policy
		keda   int32
		create int32
	}
	bubble.Each(t, map[string]row{
		"a minimum of 2 idle Jobs, 1 message":            {Observation{Queues: of(1, 1), Active: 2}, between(2, 10), 1, 0},
		"a long Job has popped its message, 1 is new":    {Observation{Queues: of(1, 1), Active: 1, Claimed: 1}, Policy{MaxReplicas: 100, Strategy: StrategyAccurate}, 0, 1},
		"the same, its message being counted":            {Observation{Queues: []Queue{{1, 1, 1}}, Active: 1, Claimed: 0}, between(0, 100), 0, 1},
		"Pods run, and have not popped yet":              {Observation{Queues: of(3, 1), Active: 3, Claimed: 0}, Policy{MaxReplicas: 100, Strategy: StrategyAccurate}, 3, 0},
		"eager counts pending Jobs twice":                {Observation{Queues: of(4, 1), Active: 4, Claimed: 0}, Policy{MaxReplicas: 10, Strategy: StrategyEager}, 2, 6},
		"custom forgets what runs":                       {Observation{Queues: of(100, 1), Active: 100, Claimed: 100}, custom, 50, 0},
		"accurate: the minimum's Jobs hide the messages": {Observation{Queues: of(5, 1), Active: 5, Claimed: 0}, Policy{MinReplicas: 5, MaxReplicas: 50, Strategy: StrategyAccurate}, 0, 0},
		"the same, once these Jobs have claimed 5":       {Observation{Queues: of(5, 1), Active: 5, Claimed: 5}, Policy{MinReplicas: 5, MaxReplicas: 50, Strategy: StrategyAccurate}, 0, 5},
		"a minimum comes before the messages":            {Observation{Queues: of(10, 1), Active: 0, Claimed: 0}, between(2, 20), 2, 10},
		"a threshold of 0 never creates":                 {Observation{Queues: of(10, 0), Active: 0, Claimed: 0}, between(0, 20), 0, 10},
		"a negative lag":                                 {Observation{Queues: of(-1, 1), Active: 0, Claimed: 0}, between(0, 20), 0, 0},
	}, func(_ *testing.T, g Gomega, c row) {
		g.Expect(Decide(c.seen, c.policy).Create).To(Equal(c.create), "KEDA creates %d", c.keda)
	})
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
