// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Slim is a cache transform that strips the metadata of a ScaledJob that the operator does not use. It returns other
// objects unchanged.
func Slim(object any) (any, error) {
	sj, ok := object.(*ScaledJob)
	if !ok {
		return object, nil
	}
	slim := *sj
	slim.ManagedFields, slim.Annotations, slim.Labels = nil, nil, nil
	slim.OwnerReferences, slim.Finalizers = nil, nil
	slim.Status.Conditions, slim.words = slimConditions(sj.Status.Conditions)
	return &slim, nil
}

// words are the strings of a condition.
type words struct {
	kind            string
	status          metav1.ConditionStatus
	reason, message string
}

// slimConditions returns the conditions in no more memory than they need, with strings that they share with those of
// other ScaledJobs. The strings are shared for as long as the handles are kept.
func slimConditions(conditions []metav1.Condition) ([]metav1.Condition, []unique.Handle[words]) {
	slim, shared := make([]metav1.Condition, len(conditions)), make([]unique.Handle[words], len(conditions))
	for i, condition := range conditions {
		shared[i] = unique.Make(words{condition.Type, condition.Status, condition.Reason, condition.Message})
		its := shared[i].Value()
		condition.Type, condition.Status, condition.Reason, condition.Message = its.kind, its.status, its.reason, its.message
		slim[i] = condition
	}
	return slim, shared
}
