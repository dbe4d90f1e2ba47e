// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// ScaledJob is a ScaledJob as the API server stores it, with as much of it as could be decoded. An object stored under
// an older CRD may have fields of other types. Decoding into the types of the API alone would fail for the whole list,
// so that one such object would stop the operator for all ScaledJobs. Unstructured objects would also avoid that, but
// take more memory and a conversion per reconcile.
type ScaledJob struct {
	scaledjobv1.ScaledJob

	// SpecErr is the error of decoding the spec, and StatusErr that of the status. A part that can't be decoded is
	// empty.
	SpecErr   error `json:"-"`
	StatusErr error `json:"-"`
}

// List is a list of ScaledJobs.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ScaledJob `json:"items"`
}

// AddToScheme registers these types for ScaledJobs, instead of those of the API.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypeWithName(scaledjobv1.GroupVersion.WithKind("ScaledJob"), &ScaledJob{})
	scheme.AddKnownTypeWithName(scaledjobv1.GroupVersion.WithKind("ScaledJobList"), &List{})
	metav1.AddToGroupVersion(scheme, scaledjobv1.GroupVersion)
}

// UnmarshalJSON implements json.Unmarshaler. It returns an error only for invalid metadata, which the API server does
// not store.
func (s *ScaledJob) UnmarshalJSON(data []byte) error {
	*s = ScaledJob{}
	if utiljson.Unmarshal(data, &s.ScaledJob) == nil {
		return nil
	}
	var parts struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if err := utiljson.Unmarshal(data, &parts); err != nil {
		return err
	}
	s.ScaledJob = scaledjobv1.ScaledJob{TypeMeta: parts.TypeMeta, ObjectMeta: parts.ObjectMeta}
	if s.SpecErr = unmarshal(parts.Spec, &s.Spec); s.SpecErr != nil {
		s.Spec = scaledjobv1.ScaledJobSpec{}
	}
	if s.StatusErr = unmarshal(parts.Status, &s.Status); s.StatusErr != nil {
		s.Status = scaledjobv1.ScaledJobStatus{}
	}
	return nil
}

// unmarshal decodes a part that may be missing.
func unmarshal(data json.RawMessage, into any) error {
	if len(data) == 0 {
		return nil
	}
	return utiljson.Unmarshal(data, into)
}

// DeepCopyObject implements runtime.Object.
func (s *ScaledJob) DeepCopyObject() runtime.Object {
	return &ScaledJob{ScaledJob: *s.DeepCopy(), SpecErr: s.SpecErr, StatusErr: s.StatusErr}
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	copied := &List{TypeMeta: l.TypeMeta, ListMeta: *l.DeepCopy(), Items: make([]ScaledJob, len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*ScaledJob)
	}
	return copied
}
