// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import "slices"

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
	// The decoder allocates more memory than the conditions need.
	slim.Status.Conditions = slices.Clone(sj.Status.Conditions)
	return &slim, nil
}
