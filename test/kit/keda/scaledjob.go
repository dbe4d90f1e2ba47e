// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keda

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// JobLabel is the label by which a Job names KEDA's ScaledJob that it belongs to.
const JobLabel = "scaledjob.keda.sh/name"

// The strategies of KEDA's documentation: the first for a list that has the messages in progress too, and the second
// for one that has not, because a worker removes its message when it begins.
const (
	StrategyDefault  = "default"
	StrategyAccurate = "accurate"
)

var kind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledJob"}

// Strategy is KEDA's for the same workers.
func Strategy(of *scaledjobv1.ScaledJob) string {
	if of.Spec.ScalingStrategy.Type == scaledjobv1.StrategyAccurate {
		return StrategyAccurate
	}
	return StrategyDefault
}

// ScaledJob translates a ScaledJob with one list, no password and no metadata for its Jobs: it asks KEDA for the same
// Jobs from the same list.
func ScaledJob(of *scaledjobv1.ScaledJob, pollingInterval time.Duration) (*unstructured.Unstructured, error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&of.Spec.JobTemplate.Spec)
	if err != nil {
		return nil, fmt.Errorf("translating the template of %s: %w", of.Name, err)
	}
	object := Named(of)
	object.Object["spec"] = map[string]any{
		"jobTargetRef":               template,
		"pollingInterval":            int64(pollingInterval.Seconds()),
		"maxReplicaCount":            int64(of.Spec.MaxReplicasOrDefault()),
		"successfulJobsHistoryLimit": int64(of.Spec.SuccessfulJobsHistoryLimitOrDefault()),
		"failedJobsHistoryLimit":     int64(of.Spec.FailedJobsHistoryLimitOrDefault()),
		"scalingStrategy":            map[string]any{"strategy": Strategy(of)},
		"triggers": []any{map[string]any{
			"type": "redis",
			"metadata": map[string]any{
				"address":    of.Spec.RedisAddress,
				"listName":   of.Spec.QueueName,
				"listLength": strconv.FormatInt(of.Spec.Threshold, 10),
			},
		}},
	}
	return object, nil
}

// Named is KEDA's ScaledJob of the same name, without content.
func Named(of metav1.Object) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(of.GetNamespace())
	object.SetName(of.GetName())
	return object
}

// List is an empty list of KEDA's ScaledJobs.
func List() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// AtRest says whether KEDA polls for a ScaledJob, and has found no message the last time.
func AtRest(object *unstructured.Unstructured) bool {
	return condition(object, "Ready") == metav1.ConditionTrue && condition(object, "Active") == metav1.ConditionFalse
}

// condition is the status of a condition, which is empty if there is none.
func condition(object *unstructured.Unstructured, name string) metav1.ConditionStatus {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok && fields["type"] == name {
			status, _ := fields["status"].(string)
			return metav1.ConditionStatus(status)
		}
	}
	return ""
}
