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

// ScaledJob is a ScaledJob as the API server holds it, with everything that could be read. One that was stored under an older CRD stays as
// it is, although a field may have another type by now. With the types of the API alone, one such object would keep the whole list from
// being read, and all ScaledJobs from being served. An informer of unstructured objects would need no type of its own, but more memory and a
// conversion at each reconcile.
type ScaledJob struct {
	scaledjobv1.ScaledJob

	// SpecErr says why the spec, and StatusErr why the status could not be read. Where one could not, it is empty.
	SpecErr   error `json:"-"`
	StatusErr error `json:"-"`
}

// List is a list of them.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ScaledJob `json:"items"`
}

// AddToScheme has a client read ScaledJobs into these types, and not into those of the API.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypeWithName(scaledjobv1.GroupVersion.WithKind("ScaledJob"), &ScaledJob{})
	scheme.AddKnownTypeWithName(scaledjobv1.GroupVersion.WithKind("ScaledJobList"), &List{})
	metav1.AddToGroupVersion(scheme, scaledjobv1.GroupVersion)
}

// UnmarshalJSON implements json.Unmarshaler. The only error is that of metadata, which no API server stores otherwise than it should be.
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

// unmarshal reads a part that may be missing.
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
