// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"math"
	"math/big"
	"testing"
)

// FuzzDecide compares the decision for two queues with the formulas in arbitrary precision, for all values of an int64.
func FuzzDecide(f *testing.F) {
	const most, least = math.MaxInt64, math.MinInt64
	f.Add(byte(0), byte(0), int64(47), int64(0), int64(10), int64(0), int64(0), int64(10), int64(4), int64(0), int64(0), int32(0), int32(20), int64(0), int32(0), int32(2), false)
	f.Add(byte(1), byte(1), int64(3), int64(4), int64(1), int64(9), int64(9), int64(2), int64(4), int64(3), int64(0), int32(0), int32(20), int64(1), int32(50), int32(2), false)
	f.Add(byte(2), byte(2), int64(most), int64(most), int64(1), int64(most), int64(most), int64(1), int64(0), int64(most), int64(0), int32(0), int32(math.MaxInt32), int64(1), int32(100), int32(math.MaxInt32), true)
	f.Add(byte(3), byte(3), int64(least), int64(least), int64(least), int64(least), int64(least), int64(least), int64(least), int64(least), int64(least), int32(math.MinInt32), int32(math.MinInt32), int64(least), int32(math.MinInt32), int32(math.MinInt32), true)
	f.Add(byte(1), byte(0), int64(20), int64(0), int64(10), int64(0), int64(0), int64(7), int64(9), int64(7), int64(20), int32(1), int32(5), int64(most), int32(99), int32(3), true)
	f.Fuzz(func(t *testing.T, strategy, calculation byte, waiting, inProgress, threshold, otherWaiting, otherInProgress, otherThreshold,
		active, claimed, activation int64, minimum, maximum int32, deduction int64, percentage, spare int32, overdue bool,
	) {
		seen := Observation{
			Queues:  []Queue{{waiting, inProgress, threshold}, {otherWaiting, otherInProgress, otherThreshold}},
			Overdue: overdue, Active: active, Claimed: claimed,
		}
		policy := Policy{
			ActivationThreshold: activation, MinReplicas: minimum, MaxReplicas: maximum, SpareReplicas: spare,
			Strategy: strategies[int(strategy)%len(strategies)], Calculation: calculations[int(calculation)%len(calculations)],
			Deduction: deduction, ClaimedPercentage: percentage,
		}
		if got, want := Decide(seen, policy), decideExactly(seen, policy); got != want {
			t.Fatalf("%+v by %+v gives %+v instead of %+v", seen, policy, got, want)
		}
	})
}

var (
	strategies   = []Strategy{StrategyDefault, StrategyAccurate, StrategyCustom, StrategyEager}
	calculations = []Calculation{Sum, Max, Min, Avg}
)

// number returns a non-negative number.
func number(n int64) *big.Int { return big.NewInt(max(n, 0)) }

func sum(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// quotient returns a / b, rounded up.
func quotient(a, b *big.Int) *big.Int {
	return new(big.Int).Div(new(big.Int).Sub(sum(a, b), big.NewInt(1)), b)
}

// decideExactly implements the formulas of the package documentation literally.
func decideExactly(seen Observation, policy Policy) Decision {
	active := number(seen.Active)
	claimed := smaller(number(seen.Claimed), active)
	maximum := number(int64(policy.MaxReplicas))
	var wanted *big.Int
	switch policy.Strategy {
	case StrategyAccurate:
		wanted = sum(claimed, dueExactly(seen, policy, false))
	case StrategyCustom:
		share := new(big.Int).Div(new(big.Int).Mul(claimed, big.NewInt(int64(min(max(policy.ClaimedPercentage, 0), 100)))), big.NewInt(100))
		wanted = new(big.Int).Sub(sum(claimed, dueExactly(seen, policy, false)), sum(number(policy.Deduction), share))
	case StrategyEager:
		wanted = new(big.Int).Mul(maximum, big.NewInt(int64(dueExactly(seen, policy, false).Sign())))
	default:
		wanted = dueExactly(seen, policy, true)
	}
	desired := larger(wanted, new(big.Int))
	if policy.Strategy == StrategyDefault || policy.Strategy == StrategyEager {
		desired = sum(desired, number(int64(policy.SpareReplicas)))
	}
	desired = smaller(larger(desired, number(int64(policy.MinReplicas))), maximum)
	create := larger(new(big.Int).Sub(desired, active), new(big.Int))
	return Decision{Desired: int32(desired.Int64()), Create: int32(create.Int64()), AtMax: wanted.Cmp(maximum) > 0}
}

// dueExactly returns the due Jobs of two queues.
func dueExactly(seen Observation, policy Policy, withInProgress bool) *big.Int {
	outstanding := new(big.Int)
	var messages, thresholds, dues []*big.Int
	for _, q := range seen.Queues {
		all := sum(number(q.Waiting), number(q.InProgress))
		outstanding = sum(outstanding, all)
		if !withInProgress {
			all = number(q.Waiting)
		}
		threshold := number(max(q.Threshold, 1))
		messages, thresholds = append(messages, all), append(thresholds, threshold)
		dues = append(dues, quotient(all, threshold))
	}
	if !seen.Overdue && outstanding.Cmp(number(policy.ActivationThreshold)) <= 0 {
		return new(big.Int)
	}
	first, second := dues[0], dues[1]
	both := first.Sign() > 0 && second.Sign() > 0
	switch {
	case policy.Calculation == Max, policy.Calculation == Min && !both, policy.Calculation == Avg && !both:
		return larger(first, second)
	case policy.Calculation == Min:
		return smaller(first, second)
	case policy.Calculation == Avg:
		return quotient(sum(first, second), big.NewInt(2))
	case thresholds[0].Cmp(thresholds[1]) == 0:
		return quotient(sum(messages[0], messages[1]), thresholds[0])
	default:
		return sum(first, second)
	}
}
