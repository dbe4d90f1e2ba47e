// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultClaimGraceSeconds is the default of claimGraceSeconds.
const DefaultClaimGraceSeconds int32 = 10

// ScalingStrategyType is the name of a scaling strategy.
// +kubebuilder:validation:Enum=Default;Accurate;Eager;Custom
type ScalingStrategyType string

const (
	// StrategyDefault wants one Job for each threshold of outstanding messages. It is exact if a message counts until
	// its Job is done with it.
	StrategyDefault ScalingStrategyType = "Default"
	// StrategyAccurate assumes that a Job that has been ready for claimGraceSeconds has taken its messages, and wants
	// one more Job for each threshold of waiting messages. It is for workers that remove their messages from the queue
	// at the start.
	StrategyAccurate ScalingStrategyType = "Accurate"
	// StrategyEager wants maxReplicas Jobs while any message waits.
	StrategyEager ScalingStrategyType = "Eager"
	// StrategyCustom is Accurate minus a fixed number of Jobs and a percentage of the Jobs that have taken their
	// messages.
	StrategyCustom ScalingStrategyType = "Custom"
)

// ScalingStrategy says how the number of Jobs is computed from the messages.
//
// +kubebuilder:validation:XValidation:rule="has(self.custom) == (has(self.type) && self.type == 'Custom')",message="custom is required with type Custom, and not allowed with another",fieldPath=".custom"
type ScalingStrategy struct {
	// type is the strategy. Default: one Job for each threshold of messages that wait or are in progress. Accurate: for
	// workers that remove their messages from the queue at the start; one Job for each threshold of waiting messages,
	// in addition to the Jobs that have taken their messages. Eager: maxReplicas Jobs while any message waits. Custom:
	// Accurate, minus the deductions in custom.
	// +optional
	// +kubebuilder:default=Default
	Type ScalingStrategyType `json:"type,omitempty"`

	// claimGraceSeconds is how long a Job must have had a ready Pod until Accurate and Custom assume that it has taken
	// its messages. It should be longer than the workers need to take a message after they are ready. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	ClaimGraceSeconds *int32 `json:"claimGraceSeconds,omitempty"`

	// custom configures the type Custom.
	// +optional
	Custom *CustomStrategy `json:"custom,omitempty"`
}

// CustomStrategy specifies the deductions of Custom.
type CustomStrategy struct {
	// queueLengthDeduction is the number of Jobs to deduct. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	QueueLengthDeduction int64 `json:"queueLengthDeduction,omitempty"`

	// runningJobPercentage is the percentage of the Jobs that have taken their messages to deduct, rounded down to
	// whole Jobs. 0 to 100, default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RunningJobPercentage int32 `json:"runningJobPercentage,omitempty"`
}

// ClaimGrace is claimGraceSeconds, or its default where it is unset or negative.
func (s *ScalingStrategy) ClaimGrace() time.Duration {
	return time.Duration(orDefault(s.ClaimGraceSeconds, DefaultClaimGraceSeconds)) * time.Second
}

// RolloutStrategy says what happens to unfinished Jobs of an earlier template.
// +kubebuilder:validation:Enum=Gradual;Unstarted;Immediate
type RolloutStrategy string

const (
	// RolloutGradual keeps them: they finish unchanged, and new Jobs have the new template.
	RolloutGradual RolloutStrategy = "Gradual"
	// RolloutUnstarted deletes those that have never had a ready Pod, and creates Jobs of the current template in their
	// place. It keeps the others.
	RolloutUnstarted RolloutStrategy = "Unstarted"
	// RolloutImmediate deletes all of them, and creates Jobs of the current template in their place.
	RolloutImmediate RolloutStrategy = "Immediate"
)

// PropagationPolicy says how the Pods of a deleted Job are deleted.
// +kubebuilder:validation:Enum=Background;Foreground
type PropagationPolicy string

// The propagation policies.
const (
	// PropagationBackground deletes the Job at once, and its Pods afterwards. The new Job may start while they still
	// terminate.
	PropagationBackground PropagationPolicy = "Background"
	// PropagationForeground deletes the Pods first. Until they are gone, the Job counts as active.
	PropagationForeground PropagationPolicy = "Foreground"
)

// Rollout says what happens to unfinished Jobs of an earlier jobTemplate. Edits of other fields do not affect existing
// Jobs.
type Rollout struct {
	// strategy says what happens to unfinished Jobs of an earlier template, whenever it was edited. Gradual (default)
	// keeps them. Unstarted replaces those that have never had a ready Pod, as far as the operator knows: it deletes
	// them and creates new Jobs in their place. Immediate replaces all of them, also those that are at work.
	// +optional
	// +kubebuilder:default=Gradual
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// propagationPolicy is how the deleted Jobs and their Pods are deleted: Background (default) deletes the Job at
	// once; with Foreground the Job stays, and counts as active, until its Pods are gone.
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
