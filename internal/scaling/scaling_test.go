// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	policy := func(threshold int64, minimum, maximum int32) Policy {
		return Policy{Threshold: threshold, MinReplicas: minimum, MaxReplicas: maximum}
	}
	cases := map[string]struct {
		seen   Observation
		policy Policy
		want   Decision
	}{
		"empty queue":                      {Observation{0, 0}, policy(10, 0, 5), Decision{0, 0, false}},
		"one message is one Job":           {Observation{1, 0}, policy(10, 0, 5), Decision{1, 1, false}},
		"exactly one threshold":            {Observation{10, 0}, policy(10, 0, 5), Decision{1, 1, false}},
		"one more than a threshold":        {Observation{11, 0}, policy(10, 0, 5), Decision{2, 2, false}},
		"47 by tens":                       {Observation{47, 4}, policy(10, 0, 20), Decision{5, 1, false}},
		"maximum holds":                    {Observation{1000, 0}, policy(10, 0, 5), Decision{5, 5, true}},
		"exactly the maximum":              {Observation{50, 0}, policy(10, 0, 5), Decision{5, 5, false}},
		"minimum holds":                    {Observation{0, 0}, policy(10, 2, 5), Decision{2, 2, false}},
		"maximum beats minimum":            {Observation{0, 0}, policy(10, 7, 5), Decision{5, 5, false}},
		"maximum 0 is none":                {Observation{1000, 0}, policy(10, 2, 0), Decision{0, 0, true}},
		"more active than desired":         {Observation{10, 4}, policy(10, 0, 5), Decision{1, 0, false}},
		"more active than the maximum":     {Observation{1000, 9}, policy(10, 0, 5), Decision{5, 0, true}},
		"largest depth, threshold 1":       {Observation{math.MaxInt64, 0}, policy(1, 0, math.MaxInt32), Decision{math.MaxInt32, math.MaxInt32, true}},
		"3e9 messages do not wrap":         {Observation{3_000_000_000, 0}, policy(1, 0, 5), Decision{5, 5, true}},
		"largest threshold":                {Observation{math.MaxInt64, 0}, policy(math.MaxInt64, 0, 5), Decision{1, 1, false}},
		"negative numbers count as none":   {Observation{-5, -5}, policy(-1, -3, -2), Decision{0, 0, false}},
		"at the activation threshold":      {Observation{20, 0}, Policy{10, 20, 0, 5}, Decision{0, 0, false}},
		"above the activation threshold":   {Observation{21, 0}, Policy{10, 20, 0, 5}, Decision{3, 3, false}},
		"not activated, but minimum holds": {Observation{20, 0}, Policy{10, 20, 1, 5}, Decision{1, 1, false}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(Decide(c.seen, c.policy)).To(Equal(c.want))
		})
	}
}

// The properties that the package promises, over the whole range of its inputs.
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			Threshold:           rapid.Int64Min(1).Draw(t, "threshold"),
			ActivationThreshold: rapid.Int64Min(0).Draw(t, "activationThreshold"),
			MinReplicas:         rapid.Int32Min(0).Draw(t, "minReplicas"),
			MaxReplicas:         rapid.Int32Min(0).Draw(t, "maxReplicas"),
		}
		seen := Observation{
			Outstanding: rapid.Int64Min(0).Draw(t, "outstanding"),
			Active:      int64(rapid.Int32Min(0).Draw(t, "active")),
		}
		got := Decide(seen, policy)

		if room := max(0, int64(policy.MaxReplicas)-seen.Active); got.Create < 0 || int64(got.Create) > room {
			t.Fatalf("creates %d with room for %d", got.Create, room)
		}
		if got.Desired < min(policy.MinReplicas, policy.MaxReplicas) || got.Desired > policy.MaxReplicas {
			t.Fatalf("desired %d outside %d and %d", got.Desired, policy.MinReplicas, policy.MaxReplicas)
		}
		after := Observation{Outstanding: seen.Outstanding, Active: seen.Active + int64(got.Create)}
		if again := Decide(after, policy); again.Create != 0 || again.Desired != got.Desired {
			t.Fatalf("decided %+v, and then %+v", got, again)
		}
		deeper := Observation{Outstanding: rapid.Int64Min(seen.Outstanding).Draw(t, "deeper"), Active: seen.Active}
		if more := Decide(deeper, policy); more.Desired < got.Desired || more.Create < got.Create {
			t.Fatalf("depth %d gives %+v, depth %d gives %+v", seen.Outstanding, got, deeper.Outstanding, more)
		}
	})
}
