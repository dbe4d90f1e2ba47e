// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy converts the spec of a ScaledJob into the scaling policy of package scaling, which does not depend on
// the types of the API. The operator and the command line decide by the same policy.
package policy

import (
	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// Of returns the scaling policy of the spec.
func Of(spec *scaledjobv1.ScaledJobSpec) scaling.Policy {
	policy := scaling.Policy{
		ActivationThreshold: spec.ActivationThreshold,
		MinReplicas:         spec.MinReplicas,
		SpareReplicas:       spec.SpareReplicas,
		MaxReplicas:         spec.MaxReplicasOrDefault(),
		MaxPendingReplicas:  spec.MaxPendingReplicasOrNone(),
		Calculation:         scaling.Calculation(spec.QueuesCalculation),
		Strategy:            scaling.Strategy(spec.ScalingStrategy.Type),
	}
	if custom := spec.ScalingStrategy.Custom; custom != nil {
		policy.Deduction, policy.ClaimedPercentage = custom.QueueLengthDeduction, custom.RunningJobPercentage
	}
	return policy
}
