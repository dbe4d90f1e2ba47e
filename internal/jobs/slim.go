// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Slim leaves of a Job what this package goes by, and returns anything else as it is. What is left is a third of a Job; it must never be
// written back.
func Slim(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return object, nil
	}
	annotations := map[string]string{}
	for _, key := range []string{
		scaledjobv1.AnnotationOrdinal, scaledjobv1.AnnotationOrdinalFloor,
		scaledjobv1.AnnotationTemplateHash, scaledjobv1.AnnotationGeneration,
	} {
		if value, has := job.Annotations[key]; has {
			annotations[key] = value
		}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:              job.Name,
			Namespace:         job.Namespace,
			UID:               job.UID,
			ResourceVersion:   job.ResourceVersion,
			DeletionTimestamp: job.DeletionTimestamp,
			Annotations:       annotations,
			OwnerReferences:   job.OwnerReferences,
		},
		Status: batchv1.JobStatus{Conditions: job.Status.Conditions, Ready: job.Status.Ready},
	}, nil
}
