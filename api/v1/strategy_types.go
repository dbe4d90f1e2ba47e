// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultClaimGraceSeconds is the default of claimGraceSeconds.
const DefaultClaimGraceSeconds int32 = 10

// ScalingStrategyType names how the number of Jobs follows from the messages.
// +kubebuilder:validation:Enum=Default;Accurate;Eager;Custom
type ScalingStrategyType string

const (
	// StrategyDefault has one Job for each threshold of outstanding messages. It is exact where a message counts until its Job is done with it.
	StrategyDefault ScalingStrategyType = "Default"
	// StrategyAccurate takes a Job that has been ready for claimGraceSeconds for one that has taken its messages, and has a further Job for
	// each threshold of messages that wait. It is for workers that take their messages off the queue at the start.
	StrategyAccurate ScalingStrategyType = "Accurate"
	// StrategyEager has maxReplicas Jobs while any message waits.
	StrategyEager ScalingStrategyType = "Eager"
	// StrategyCustom is Accurate less a fixed number of Jobs and a part of those that have taken their messages.
	StrategyCustom ScalingStrategyType = "Custom"
)

// ScalingStrategy says how the number of Jobs follows from the messages.
//
// +kubebuilder:validation:XValidation:rule="has(self.custom) == (has(self.type) && self.type == 'Custom')",message="custom is required with type Custom, and not allowed with another",fieldPath=".custom"
type ScalingStrategy struct {
	// type says what is counted. Default: a Job for each threshold of messages that wait or are in progress. Accurate: for workers that take
	// their messages off the queue at the start, a Job for each threshold of those that wait, besides the Jobs that have taken theirs. Eager:
	// maxReplicas Jobs while any message waits. Custom: Accurate, less what custom says.
	// +optional
	// +kubebuilder:default=Default
	Type ScalingStrategyType `json:"type,omitempty"`

	// claimGraceSeconds is for how long a Job must have had a ready Pod to count as one that has taken its messages, by Accurate and Custom.
	// It is to be longer than the workers need from when they are ready until they have taken one. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	ClaimGraceSeconds *int32 `json:"claimGraceSeconds,omitempty"`

	// custom is for type Custom.
	// +optional
	Custom *CustomStrategy `json:"custom,omitempty"`
}

// CustomStrategy is what Custom deducts.
type CustomStrategy struct {
	// queueLengthDeduction is how many Jobs fewer there are to be. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	QueueLengthDeduction int64 `json:"queueLengthDeduction,omitempty"`

	// runningJobPercentage is which part of the Jobs that have taken their messages is deducted, as a whole number of
	// percent, such as 50 for one half; what is deducted is rounded down. 0 to 100, default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RunningJobPercentage int32 `json:"runningJobPercentage,omitempty"`
}

// ClaimGrace is claimGraceSeconds, or its default where it is unset or negative.
func (s *ScalingStrategy) ClaimGrace() time.Duration {
	return time.Duration(orDefault(s.ClaimGraceSeconds, DefaultClaimGraceSeconds)) * time.Second
}

// RolloutStrategy names what becomes of unfinished Jobs when the template is edited.
// +kubebuilder:validation:Enum=Gradual;Immediate
type RolloutStrategy string

const (
	// RolloutGradual leaves them alone: they finish as they are, and new Jobs have the new template.
	RolloutGradual RolloutStrategy = "Gradual"
	// RolloutImmediate deletes them, and creates others of the new template in their place.
	RolloutImmediate RolloutStrategy = "Immediate"
)

// PropagationPolicy names how the Pods of a deleted Job go.
// +kubebuilder:validation:Enum=Background;Foreground
type PropagationPolicy string

// The propagation policies.
const (
	// PropagationBackground has the Job go at once and its Pods after it. Its place is taken while they still terminate.
	PropagationBackground PropagationPolicy = "Background"
	// PropagationForeground has the Pods go first. Until they have, the Job counts as active and its place stays taken.
	PropagationForeground PropagationPolicy = "Foreground"
)

// Rollout says what becomes of unfinished Jobs when jobTemplate is edited. No other edit touches a Job.
type Rollout struct {
	// strategy is Gradual (default), which leaves them alone, or Immediate, which deletes those of an earlier template and creates others in
	// their place.
	// +optional
	// +kubebuilder:default=Gradual
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// propagationPolicy is how the Pods of the deleted Jobs go: Background (default), with the Job gone at once, or Foreground, with the Job
	// staying, and counting, until its Pods are gone.
	// +optional
	// +kubebuilder:default=Background
	PropagationPolicy PropagationPolicy `json:"propagationPolicy,omitempty"`
}

// DeletionPropagation is propagationPolicy, or its default, as Kubernetes names it.
func (r *Rollout) DeletionPropagation() metav1.DeletionPropagation {
	if r.PropagationPolicy == PropagationForeground {
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
