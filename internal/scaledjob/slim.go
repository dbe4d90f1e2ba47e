// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Slim is a cache transform that strips the metadata of a ScaledJob that the operator does not use, and large templates.
// It returns other objects unchanged.
func Slim(object any) (any, error) {
	sj, ok := object.(*ScaledJob)
	if !ok {
		return object, nil
	}
	slim := *sj
	slim.ManagedFields, slim.Annotations, slim.Labels = nil, nil, nil
	slim.OwnerReferences, slim.Finalizers = nil, nil
	slim.Template = sj.Template.slim()
	slim.Status.Conditions = slimConditions(sj.Status.Conditions)
	return &slim, nil
}

// slimConditions returns the conditions with strings that they share with those of other ScaledJobs, in no more memory
// than they need.
func slimConditions(conditions []metav1.Condition) []metav1.Condition {
	slim := make([]metav1.Condition, len(conditions))
	for i, condition := range conditions {
		condition.Type, condition.Status = shared(condition.Type), shared(condition.Status)
		condition.Reason, condition.Message = shared(condition.Reason), shared(condition.Message)
		slim[i] = condition
	}
	return slim
}

// shared returns an equal string of which there is one in the memory.
func shared[T comparable](value T) T { return unique.Make(value).Value() }
