// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

func TestOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := &scaledjobv1.ScaledJobSpec{MinReplicas: 1, ActivationThreshold: 7, MaxReplicas: new(int32(20))}
	g.Expect(Of(spec)).To(Equal(scaling.Policy{ActivationThreshold: 7, MinReplicas: 1, MaxReplicas: 20}))
	spec.QueuesCalculation = scaledjobv1.CalculateAvg
	spec.SpareReplicas, spec.MaxPendingReplicas = 2, new(int32(4))
	spec.ScalingStrategy = scaledjobv1.ScalingStrategy{
		Type: scaledjobv1.StrategyCustom, Custom: &scaledjobv1.CustomStrategy{QueueLengthDeduction: 3, RunningJobPercentage: 50},
	}
	g.Expect(Of(spec)).To(Equal(scaling.Policy{
		ActivationThreshold: 7, MinReplicas: 1, SpareReplicas: 2, MaxReplicas: 20, MaxPendingReplicas: 4,
		Calculation: scaling.Avg, Strategy: scaling.StrategyCustom, Deduction: 3, ClaimedPercentage: 50,
	}))
}

// The constants of the API equal those of the decision.
func TestWordsAgree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect([]any{scaledjobv1.StrategyDefault, scaledjobv1.StrategyAccurate, scaledjobv1.StrategyEager, scaledjobv1.StrategyCustom}).
		To(HaveExactElements(BeEquivalentTo(scaling.StrategyDefault), BeEquivalentTo(scaling.StrategyAccurate),
			BeEquivalentTo(scaling.StrategyEager), BeEquivalentTo(scaling.StrategyCustom)))
	g.Expect([]any{scaledjobv1.CalculateSum, scaledjobv1.CalculateMax, scaledjobv1.CalculateMin, scaledjobv1.CalculateAvg}).
		To(HaveExactElements(BeEquivalentTo(scaling.Sum), BeEquivalentTo(scaling.Max), BeEquivalentTo(scaling.Min), BeEquivalentTo(scaling.Avg)))
}
