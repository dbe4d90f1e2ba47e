// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// of returns one queue with these messages and this threshold.
func of(waiting, threshold int64) []Queue { return []Queue{{Waiting: waiting, Threshold: threshold}} }

// between returns a policy with these limits.
func between(minimum, maximum int32) Policy {
	return Policy{MinReplicas: minimum, MaxReplicas: maximum}
}

func TestDecide(t *testing.T) {
	type row struct {
		queues []Queue
		active int64
		policy Policy
		want   Decision
	}
	bubble.Each(t, map[string]row{
		"no queue":                         {nil, 0, between(0, 5), Decision{0, 0, false}},
		"empty queue":                      {of(0, 10), 0, between(0, 5), Decision{0, 0, false}},
		"one message is one Job":           {of(1, 10), 0, between(0, 5), Decision{1, 1, false}},
		"exactly one threshold":            {of(10, 10), 0, between(0, 5), Decision{1, 1, false}},
		"one more than a threshold":        {of(11, 10), 0, between(0, 5), Decision{2, 2, false}},
		"47 by tens":                       {of(47, 10), 4, between(0, 20), Decision{5, 1, false}},
		"maximum holds":                    {of(1000, 10), 0, between(0, 5), Decision{5, 5, true}},
		"exactly the maximum":              {of(50, 10), 0, between(0, 5), Decision{5, 5, false}},
		"minimum holds":                    {of(0, 10), 0, between(2, 5), Decision{2, 2, false}},
		"maximum beats minimum":            {of(0, 10), 0, between(7, 5), Decision{5, 5, false}},
		"maximum 0 is none":                {of(1000, 10), 0, between(2, 0), Decision{0, 0, true}},
		"more active than desired":         {of(10, 10), 4, between(0, 5), Decision{1, 0, false}},
		"more active than the maximum":     {of(1000, 10), 9, between(0, 5), Decision{5, 0, true}},
		"largest depth, threshold 1":       {of(math.MaxInt64, 1), 0, between(0, math.MaxInt32), Decision{math.MaxInt32, math.MaxInt32, true}},
		"3e9 messages do not wrap":         {of(3_000_000_000, 1), 0, between(0, 5), Decision{5, 5, true}},
		"largest threshold":                {of(math.MaxInt64, math.MaxInt64), 0, between(0, 5), Decision{1, 1, false}},
		"negative numbers count as none":   {of(-5, -1), -5, between(-3, -2), Decision{0, 0, false}},
		"at the activation threshold":      {of(20, 10), 0, Policy{ActivationThreshold: 20, MaxReplicas: 5}, Decision{0, 0, false}},
		"above the activation threshold":   {of(21, 10), 0, Policy{ActivationThreshold: 20, MaxReplicas: 5}, Decision{3, 3, false}},
		"not activated, but minimum holds": {of(20, 10), 0, Policy{ActivationThreshold: 20, MinReplicas: 1, MaxReplicas: 5}, Decision{1, 1, false}},
		"what is in progress counts":       {[]Queue{{Waiting: 3, InProgress: 4, Threshold: 1}}, 4, between(0, 20), Decision{7, 3, false}},
		"unknown words are the defaults":   {of(3, 1), 0, Policy{MaxReplicas: 20, Strategy: "Clever", Calculation: "Median"}, Decision{3, 3, false}},
		"activated by all queues together": {append(of(15, 10), of(6, 10)...), 0, Policy{ActivationThreshold: 20, MaxReplicas: 5}, Decision{3, 3, false}},
	}, func(_ *testing.T, g Gomega, c row) {
		g.Expect(Decide(Observation{Queues: c.queues, Active: c.active}, c.policy)).To(Equal(c.want))
	})
}

func TestDecideOfSeveralQueues(t *testing.T) {
	t.Parallel()
	queues := []Queue{
		{Waiting: 15, InProgress: 10, Threshold: 10}, // Due: 2 for waiting messages, 3 for all.
		{Waiting: 3, InProgress: 3, Threshold: 10},   // 1 and 1
		{Waiting: 7, Threshold: 2},                   // 4 and 4
		{Threshold: 2},
		{InProgress: 1, Threshold: 3}, // 0 and 1
	}
	for _, c := range []struct {
		calculation                         Calculation
		outstanding, waiting                int32
		outstandingOfFirst, outstandingLast int32
	}{
		// Equal thresholds: 31 messages by tens, 7 by twos, 1 by threes; waiting: 18, 7 and 0.
		{Sum, 4 + 4 + 1, 2 + 4, 4, 1},
		{Max, 4, 4, 3, 1},
		{Min, 1, 1, 1, 1},
		{Avg, 3, 3, 2, 1}, // 9 in four queues; 7 in three
	} {
		t.Run(string(c.calculation), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			decide := func(strategy Strategy, queues []Queue) int32 {
				policy := Policy{MaxReplicas: 100, Calculation: c.calculation, Strategy: strategy}
				return Decide(Observation{Queues: queues}, policy).Desired
			}
			g.Expect(decide(StrategyDefault, queues)).To(Equal(c.outstanding))
			g.Expect(decide(StrategyAccurate, queues)).To(Equal(c.waiting))
			g.Expect(decide(StrategyDefault, queues[:2])).To(Equal(c.outstandingOfFirst))
			g.Expect(decide(StrategyDefault, queues[3:])).To(Equal(c.outstandingLast))
			g.Expect(decide(StrategyAccurate, queues[3:])).To(BeZero(), "no message is waiting")
		})
	}
}

// The properties in the package documentation, over the whole range of inputs.
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			ActivationThreshold: rapid.Int64Min(0).Draw(t, "activationThreshold"),
			MinReplicas:         rapid.Int32Min(0).Draw(t, "minReplicas"),
			MaxReplicas:         rapid.Int32Min(0).Draw(t, "maxReplicas"),
			Strategy:            rapid.SampledFrom(strategies).Draw(t, "strategy"),
			Calculation:         rapid.SampledFrom(calculations).Draw(t, "calculation"),
			Deduction:           rapid.Int64Min(0).Draw(t, "deduction"),
			ClaimedPercentage:   rapid.Int32Range(0, 100).Draw(t, "percentage"),
		}
		anyQueue := rapid.Custom(func(t *rapid.T) Queue {
			return Queue{
				Waiting:    rapid.Int64Min(0).Draw(t, "waiting"),
				InProgress: rapid.Int64Min(0).Draw(t, "inProgress"),
				Threshold:  rapid.Int64Min(1).Draw(t, "threshold"),
			}
		})
		seen := Observation{
			Queues: rapid.SliceOfN(anyQueue, 1, 16).Draw(t, "queues"),
			Active: int64(rapid.Int32Min(0).Draw(t, "active")),
		}
		seen.Claimed = rapid.Int64Range(0, seen.Active).Draw(t, "claimed")
		got := Decide(seen, policy)

		if room := max(0, int64(policy.MaxReplicas)-seen.Active); got.Create < 0 || int64(got.Create) > room {
			t.Fatalf("creates %d with room for %d", got.Create, room)
		}
		if got.Desired < min(policy.MinReplicas, policy.MaxReplicas) || got.Desired > policy.MaxReplicas {
			t.Fatalf("desired %d outside %d and %d", got.Desired, policy.MinReplicas, policy.MaxReplicas)
		}
		after := seen
		after.Active += int64(got.Create)
		if again := Decide(after, policy); again.Create != 0 || again.Desired != got.Desired {
			t.Fatalf("decided %+v, and then %+v", got, again)
		}
		deeper := grown(t, seen, policy.Calculation)
		if more := Decide(deeper, policy); more.Desired < got.Desired || more.Create < got.Create {
			t.Fatalf("%+v gives %+v, %+v gives %+v", seen, got, deeper, more)
		}
	})
}

// grown returns the observation with more messages in one queue. If empty queues matter, that queue was not empty.
func grown(t *rapid.T, seen Observation, calculation Calculation) Observation {
	queues := append([]Queue(nil), seen.Queues...)
	which := &queues[rapid.IntRange(0, len(queues)-1).Draw(t, "which")]
	if (calculation == Min || calculation == Avg) && which.Waiting == 0 {
		return seen
	}
	which.Waiting = rapid.Int64Min(which.Waiting).Draw(t, "more waiting")
	seen.Queues = queues
	return seen
}

// BenchmarkDecide measures the decision over sixteen queues.
func BenchmarkDecide(b *testing.B) {
	seen := Observation{Active: 7}
	for i := range int64(16) {
		seen.Queues = append(seen.Queues, Queue{Waiting: 3 * i, InProgress: i, Threshold: 5})
	}
	policy := Policy{MinReplicas: 1, MaxReplicas: 100}
	b.ReportAllocs()
	for b.Loop() {
		Decide(seen, policy)
	}
}
