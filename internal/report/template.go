// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// maxCauses is how many faults of a template are named at once, and maxCause how many bytes each may take: the API server repeats
	// the value at fault, but takes no condition that is too long.
	maxCauses = 5
	maxCause  = 256
)

// TemplateUnasked is what is told of a template until the API server has been asked.
var TemplateUnasked = &Condition{
	metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
	"The API server has not checked the template yet. The operator still creates Jobs.",
}

var templateAccepted = &Condition{metav1.ConditionTrue, scaledjobv1.ReasonAccepted, "The API server accepts Jobs of this template."}

// Template tells what the answer to the dry run says of the template. Only a Job that is called invalid speaks against it: a quota, a
// missing right or an API server that is away may be different the next time.
func Template(err error) *Condition {
	switch {
	case err == nil:
		return templateAccepted
	case apierrors.IsInvalid(err):
		return &Condition{
			metav1.ConditionFalse, scaledjobv1.ReasonRejected,
			"The API server rejects Jobs of this template. Correct spec.jobTemplate: " + faults(err),
		}
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return &Condition{
			metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
			"The API server answered " + string(apierrors.ReasonForError(err)) +
				" instead of checking the template. Check quotas, admission policies and the permissions of the operator.",
		}
	}
	return TemplateUnasked
}

// unexplained stands for the faults where the API server names none.
const unexplained = "the API server gave no cause."

// faults names the fields at fault.
func faults(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return unexplained
	}
	var named []string
	for _, cause := range status.Status().Details.Causes {
		if len(named) == maxCauses {
			named = append(named, "and more")
			break
		}
		named = append(named, shorten(strings.TrimPrefix(cause.Field+": "+cause.Message, ": "), maxCause))
	}
	if len(named) == 0 {
		return unexplained
	}
	return strings.Join(named, "; ")
}
