// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the ScaledJob API of the group batch.miracle.dev: the types, the condition types and reasons that
// the operator reports, and the labels and annotations that it writes. Fields are only ever added.
//
// +kubebuilder:object:generate=true
// +groupName=batch.miracle.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "batch.miracle.dev", Version: "v1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ScaledJob{}, &ScaledJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
