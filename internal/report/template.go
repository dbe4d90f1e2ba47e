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
	// maxCauses is the maximum number of errors of a template in the message, and maxCause the maximum length of each
	// in bytes: the API server repeats invalid values, but limits the length of conditions.
	maxCauses = 5
	maxCause  = 256
)

// TemplateUnasked is the condition until the API server has checked the template.
var TemplateUnasked = &Condition{
	metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
	"The API server has not checked the template yet. The operator still creates Jobs.",
}

var templateAccepted = &Condition{
	metav1.ConditionTrue, scaledjobv1.ReasonAccepted,
	"The API server accepts Jobs of this template.",
}

// Template returns the condition for the answer to the dry run. Only an Invalid answer makes it False: a quota, a
// missing permission or an unavailable API server may allow the next Job.
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
				" instead of checking the template. Check quotas, admission policies and the " +
				"permissions of the operator.",
		}
	}
	return TemplateUnasked
}

// unexplained replaces the list of errors if the API server returns none.
const unexplained = "the API server gave no cause."

// faults lists the invalid fields, with the errors of the API server.
func faults(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return unexplained
	}
	var list []string
	for _, cause := range status.Status().Details.Causes {
		if len(list) == maxCauses {
			list = append(list, "and more")
			break
		}
		list = append(list, shorten(strings.TrimPrefix(cause.Field+": "+cause.Message, ": "), maxCause))
	}
	if len(list) == 0 {
		return unexplained
	}
	return strings.Join(list, "; ")
}
