// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// ScaledJob is a ScaledJob as the API server stores it, with as much of it as could be decoded. An object stored under
// an older CRD may have fields of other types. Decoding into the types of the API alone would fail for the whole list,
// so that one such object would stop the operator for all ScaledJobs. Unstructured objects would also avoid that, but
// take more memory and a conversion per reconcile.
type ScaledJob struct {
	// ScaledJob is the object without the template of the Jobs.
	scaledjobv1.ScaledJob

	// Template is the template of the Jobs.
	Template Template `json:"-"`
	// SpecErr is the error of decoding the spec, and StatusErr that of the status. A part that can't be decoded is
	// empty. SpecErr is an [*UnknownFieldsError] if the spec has fields, or values of them, that this version of the
	// operator does not know, and a [TooLargeError] if the template of the Jobs is too large.
	SpecErr   error `json:"-"`
	StatusErr error `json:"-"`

	// words keep the strings of the conditions that other ScaledJobs share.
	words []unique.Handle[words]
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
	var parts struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if _, err := unmarshal(data, &parts); err != nil {
		return err
	}
	s.TypeMeta, s.ObjectMeta = parts.TypeMeta, parts.ObjectMeta
	s.Spec, s.Template, s.SpecErr = decodeSpec(parts.Spec)
	if _, s.StatusErr = unmarshal(parts.Status, &s.Status); s.StatusErr != nil {
		s.Status = scaledjobv1.ScaledJobStatus{}
	}
	return nil
}

// decodeSpec decodes a spec. If that has unknown fields or values, decodeSpec also returns the rest. It leaves out
// those in the template of the Jobs: which fields a Job has is up to Kubernetes. The decoder notes no more than 100
// unknown fields, so those in the template, which is decoded apart, hide no others.
func decodeSpec(data []byte) (scaledjobv1.ScaledJobSpec, Template, error) {
	var known struct {
		scaledjobv1.ScaledJobSpec `json:",inline"`

		JobTemplate json.RawMessage `json:"jobTemplate"`
	}
	unknown, err := unmarshal(data, &known)
	if err != nil {
		return scaledjobv1.ScaledJobSpec{}, Template{}, err
	}
	template, err := pack(known.JobTemplate)
	if err != nil {
		return scaledjobv1.ScaledJobSpec{}, Template{}, err
	}
	return known.ScaledJobSpec, template, check(unknown, &known.ScaledJobSpec)
}

// unmarshal decodes a part, which may be missing, and returns an error for each field that its type does not have. It
// takes the same values as the clients of Kubernetes.
func unmarshal(data []byte, into any) (unknown []error, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	return kjson.UnmarshalStrict(data, into, kjson.DisallowUnknownFields)
}

// UnknownFieldsError is the error of a spec with fields, or values of them, that this version of the operator does not
// know, because the CRD is newer. The API server drops fields that the CRD does not have.
type UnknownFieldsError struct{ fields []string }

func (e *UnknownFieldsError) Error() string {
	return fmt.Sprintf("this version of the operator does not know %s", strings.Join(e.fields, ", "))
}

// UnknownFields returns the paths of the fields. A path with an unknown value is followed by it.
func (e *UnknownFieldsError) UnknownFields() []string { return e.fields }

// check returns an error for the unknown fields and values of a spec.
func check(unknown []error, spec *scaledjobv1.ScaledJobSpec) error {
	var fields []string
	for _, each := range unknown {
		if field, named := errors.AsType[kjson.FieldError](each); named {
			fields = append(fields, "spec."+field.FieldPath())
		}
	}
	if fields = append(fields, unknownValues(spec)...); len(fields) == 0 {
		return nil
	}
	return &UnknownFieldsError{fields}
}

// DeepCopyObject implements runtime.Object.
func (s *ScaledJob) DeepCopyObject() runtime.Object {
	return &ScaledJob{
		ScaledJob: *s.DeepCopy(), Template: s.Template, SpecErr: s.SpecErr, StatusErr: s.StatusErr, words: s.words,
	}
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	copied := &List{TypeMeta: l.TypeMeta, ListMeta: *l.DeepCopy(), Items: make([]ScaledJob, len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*ScaledJob)
	}
	return copied
}
