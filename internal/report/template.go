// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/admission"
)

const (
	// maxCause is the maximum length of a name or an error in a message, and maxWarnings that of all warnings, in bytes.
	maxCause    = 256
	maxWarnings = 1024
	// warns comes before the warnings.
	warns = " It warns: "
)

// templateUnchecked is the condition until the API server has checked the template.
var templateUnchecked = &Condition{
	metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
	"The API server has not checked the template yet. The operator still creates Jobs.",
}

var templateAccepted = &Condition{
	metav1.ConditionTrue, scaledjobv1.ReasonAccepted,
	"The API server accepted a Job of this template.",
}

// accepted returns the condition for a template that the API server accepts with these warnings.
func accepted(warnings []string) *Condition {
	if len(warnings) == 0 {
		return templateAccepted
	}
	return &Condition{
		metav1.ConditionTrue, scaledjobv1.ReasonAccepted,
		templateAccepted.Message + warns + shorten(strings.Join(warnings, "; "), maxWarnings),
	}
}

// Checked returns the condition for the answer to the dry run, and its warnings. It is False only if the answer is
// about the template: a quota, a missing permission or an unavailable API server may allow the next Job.
func Checked(err error, warnings []string) *Condition {
	if err == nil {
		return accepted(warnings)
	}
	answer := admission.Judge(err)
	switch {
	case answer.BlamesTemplate():
		return rejected(answer)
	case answer.By == admission.ByPermissions:
		return &Condition{metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked, mayNotCreate(answer.Name)}
	case answer.Text != "":
		return &Condition{
			metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
			"The API server did not check the template" + said(answer) + "The operator still creates Jobs.",
		}
	}
	return templateUnchecked
}

func rejected(answer admission.Answer) *Condition {
	return &Condition{
		metav1.ConditionFalse, scaledjobv1.ReasonRejected,
		"The API server rejects Jobs of this template" + said(answer) + cures[answer.By],
	}
}

// Tried returns the condition after creates, which prove more than a dry run: checked is the result of that, and known
// the condition in the status; each may be nil. A created Job shows that the API server accepts the template, and a
// refusal that blames the template shows that it does not.
func Tried(created int, refusal admission.Answer, checked *Condition, known *metav1.Condition) *Condition {
	switch {
	case created == 0 && refusal.BlamesTemplate():
		return rejected(refusal)
	case created == 0 || checked != nil && checked.Status == metav1.ConditionTrue:
		return checked
	case checked == nil && known != nil && known.Status == metav1.ConditionTrue:
		return nil
	}
	return templateAccepted
}
