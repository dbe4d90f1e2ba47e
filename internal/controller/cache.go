// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/consistency"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// CacheOptions are those of the cache that the controller reads from: Jobs are slimmed, and their stores are handed to the gate. They are
// not selected by label, since a label that somebody removes would make a running Job disappear. No namespaces means all.
func CacheOptions(stores *consistency.Stores, namespaces []string) cache.Options {
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		NewInformer:                 stores.NewInformer,
		ByObject:                    map[client.Object]cache.ByObject{&batchv1.Job{}: {Transform: jobs.Slim}},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}
