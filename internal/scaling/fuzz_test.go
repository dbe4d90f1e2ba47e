// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"math"
	"math/big"
	"testing"
)

// FuzzDecide holds the decision against its formula in numbers that don't overflow, over everything an int64 can hold.
func FuzzDecide(f *testing.F) {
	f.Add(int64(47), int64(4), int64(10), int64(0), int32(0), int32(20))
	f.Add(int64(math.MaxInt64), int64(0), int64(1), int64(0), int32(0), int32(math.MaxInt32))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int32(math.MinInt32), int32(math.MinInt32))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int32(math.MaxInt32), int32(math.MaxInt32))
	f.Add(int64(20), int64(0), int64(10), int64(20), int32(1), int32(5))
	f.Fuzz(func(t *testing.T, outstanding, active, threshold, activation int64, minimum, maximum int32) {
		seen := Observation{Outstanding: outstanding, Active: active}
		policy := Policy{Threshold: threshold, ActivationThreshold: activation, MinReplicas: minimum, MaxReplicas: maximum}
		got := Decide(seen, policy)
		if want := decideExactly(seen, policy); got != want {
			t.Fatalf("%+v by %+v gives %+v instead of %+v", seen, policy, got, want)
		}
	})
}

// decideExactly is the formula of the package, word for word.
func decideExactly(seen Observation, policy Policy) Decision {
	number := big.NewInt
	threshold, none := number(max(policy.Threshold, 1)), number(0)
	due := number(0)
	if seen.Outstanding > max(policy.ActivationThreshold, 0) {
		due.Add(number(seen.Outstanding), threshold)
		due.Sub(due, number(1)).Div(due, threshold)
	}
	maximum := number(int64(max(policy.MaxReplicas, 0)))
	desired := due
	if minimum := number(int64(policy.MinReplicas)); desired.Cmp(minimum) < 0 {
		desired = minimum
	}
	if desired.Cmp(maximum) > 0 {
		desired = maximum
	}
	create := number(0).Sub(desired, number(max(seen.Active, 0)))
	if create.Cmp(none) < 0 {
		create = none
	}
	return Decision{Desired: int32(desired.Int64()), Create: int32(create.Int64()), AtMax: due.Cmp(maximum) > 0}
}
