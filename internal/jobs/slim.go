// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// maxKept is the maximum length of a string of a Job that the cache keeps. The real ones are shorter; users can write
// longer ones.
const maxKept = 253

// Slim is a cache transform that strips the fields of a Job that the operator does not use, and bounds the others, so
// that no Job takes more than a few KiB, whatever users write into it. It returns other objects unchanged. A stripped
// Job must not be written back to the API server.
func Slim(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return object, nil
	}
	slim := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:              job.Name,
			Namespace:         job.Namespace,
			UID:               job.UID,
			ResourceVersion:   job.ResourceVersion,
			CreationTimestamp: job.CreationTimestamp,
			DeletionTimestamp: job.DeletionTimestamp,
		},
		Spec:   batchv1.JobSpec{Suspend: job.Spec.Suspend},
		Status: slimStatus(&job.Status),
	}
	if controller := metav1.GetControllerOfNoCopy(job); controller != nil {
		slim.OwnerReferences = []metav1.OwnerReference{slimReference(controller)}
		slim.Annotations = slimAnnotations(job.Annotations)
		slim.Status.Conditions = slimConditions(job.Status.Conditions)
	}
	return slim, nil
}

func slimReference(controller *metav1.OwnerReference) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: cut(controller.APIVersion),
		Kind:       cut(controller.Kind),
		Name:       cut(controller.Name),
		UID:        types.UID(cut(string(controller.UID))),
		Controller: controller.Controller,
	}
}

func slimAnnotations(all map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{
		scaledjobv1.AnnotationOrdinal, scaledjobv1.AnnotationOrdinalFloor,
		scaledjobv1.AnnotationTemplateHash, scaledjobv1.AnnotationGeneration,
	} {
		if value, has := all[key]; has {
			kept[key] = cut(value)
		}
	}
	return kept
}

// slimStatus returns the numbers of Pods. Pods that Kubernetes has not counted yet count as failed ones: it is enough
// to know that there were some, and their list may be long.
func slimStatus(status *batchv1.JobStatus) batchv1.JobStatus {
	uncounted := endedPods(status) - int(status.Succeeded) - int(status.Failed)
	return batchv1.JobStatus{
		Active: status.Active, Ready: status.Ready, Terminating: status.Terminating,
		Succeeded: status.Succeeded, Failed: status.Failed + int32(uncounted),
	}
}

// slimConditions returns the conditions that end a Job.
func slimConditions(all []batchv1.JobCondition) []batchv1.JobCondition {
	var kept []batchv1.JobCondition
	for _, condition := range all {
		if condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed {
			kept = append(kept, batchv1.JobCondition{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
			})
		}
	}
	return kept
}

// cut returns at most maxKept bytes of a string, without keeping the rest in memory.
func cut(text string) string {
	if len(text) <= maxKept {
		return text
	}
	return strings.Clone(text[:maxKept])
}
