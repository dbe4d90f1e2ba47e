// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/consistency"
)

// CacheOptions are those of the cache that the controller reads from: Jobs are slimmed, and their stores are handed to the gate. They are
// not selected by label, since a label that somebody removes would make a running Job disappear. No namespaces means all.
func CacheOptions(stores *consistency.Stores, namespaces []string) cache.Options {
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		NewInformer:                 stores.NewInformer,
		ByObject:                    map[client.Object]cache.ByObject{&batchv1.Job{}: {Transform: slimJob}},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

// slimJob leaves of a Job what is counted and sorted by, which is a third of it. A slimmed Job must never be written back.
func slimJob(object any) (any, error) {
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
