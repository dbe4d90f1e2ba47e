// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaling decides how many Jobs should be active. It sees numbers only: no clock, no network, no Kubernetes.
//
//	due(n)  = ceil(n / threshold), 0 while n <= activationThreshold
//	desired = clamp(due(outstanding), min(minReplicas, maxReplicas), maxReplicas)
//	create  = max(0, desired - active)
//
// For all inputs create <= max(0, maxReplicas - active), deciding again after the creates gives 0, and desired never falls as the
// depth grows. Numbers are int64 throughout and only fit an int32 once they are clamped, so that no depth overflows.
package scaling

// Policy is what the user asked for.
type Policy struct {
	// Threshold is how many messages one Job is for, at least 1. A smaller one is taken as 1.
	Threshold int64
	// ActivationThreshold is the number of outstanding messages up to which nothing is due.
	ActivationThreshold int64
	// MinReplicas is how many Jobs are kept active without any message.
	MinReplicas int32
	// MaxReplicas is how many Jobs may be active at once. It wins over MinReplicas.
	MaxReplicas int32
}

// Observation is what was seen, all of it at about the same time. There is none while anything could not be seen.
type Observation struct {
	// Outstanding is how many messages wait or are being worked on.
	Outstanding int64
	// Active is how many Jobs have not finished.
	Active int64
}

// Decision is what follows.
type Decision struct {
	// Desired is how many Jobs should be active.
	Desired int32
	// Create is how many Jobs to create now.
	Create int32
	// AtMax says that more Jobs are due than MaxReplicas allows.
	AtMax bool
}

// Decide tells how many Jobs should be active, and how many of them to create.
func Decide(seen Observation, policy Policy) Decision {
	maximum := int64(max(policy.MaxReplicas, 0))
	minimum := min(int64(policy.MinReplicas), maximum)
	wanted := due(seen.Outstanding, policy)
	desired := min(max(wanted, minimum), maximum)
	return Decision{
		Desired: int32(desired),
		Create:  int32(max(0, desired-max(seen.Active, 0))),
		AtMax:   wanted > maximum,
	}
}

// due is how many Jobs the outstanding messages are worth, before any limit.
func due(outstanding int64, policy Policy) int64 {
	if outstanding <= max(policy.ActivationThreshold, 0) {
		return 0
	}
	// Rounding up by (n + threshold - 1) / threshold would overflow near the largest depth.
	return (outstanding-1)/max(policy.Threshold, 1) + 1
}
