// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// invalid is the answer to a Job with these errors.
func invalid(faults ...*field.Error) error {
	return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails-0", faults)
}

func TestTemplate(t *testing.T) {
	const image, name = "spec.template.spec.containers[0].image", "spec.template.spec.containers[0].name"
	required := field.Required(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("image"), "")
	wrong := field.Invalid(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("name"), "A_b", "must be lower case")
	type row struct {
		err    error
		status metav1.ConditionStatus
		reason string
		words  []string
	}
	bubble.Each(t, map[string]row{
		"accepted":         {nil, metav1.ConditionTrue, "Accepted", nil},
		"one fault":        {invalid(required), metav1.ConditionFalse, "Rejected", []string{"spec.jobTemplate", image + ": Required value"}},
		"two faults":       {invalid(required, wrong), metav1.ConditionFalse, "Rejected", []string{image, name + ": Invalid value: \"A_b\": must be lower case"}},
		"wrapped":          {fmt.Errorf("creating: %w", invalid(required)), metav1.ConditionFalse, "Rejected", []string{image}},
		"invalid, no word": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422}}, metav1.ConditionFalse, "Rejected", []string{"template: Invalid."}},
		"a webhook":        {&apierrors.StatusError{ErrStatus: metav1.Status{Message: `admission webhook "w.example.com" denied the request: no`, Code: 400}}, metav1.ConditionFalse, "Rejected", []string{"w.example.com", "no."}},
		"quota":            {apierrors.NewForbidden(batchv1.Resource("jobs"), "emails-0", errors.New("exceeded quota: jobs, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: count/jobs.batch=1")), metav1.ConditionUnknown, "NotChecked", []string{"exceeded quota: jobs"}},
		"permission":       {apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New(`User "system:serviceaccount:a:b" cannot create resource "jobs" in API group "batch" in the namespace "c"`)), metav1.ConditionUnknown, "NotChecked", []string{"may not create Jobs"}},
		"overload":         {apierrors.NewTooManyRequests("later", 1), metav1.ConditionUnknown, "NotChecked", []string{"later"}},
		"server timeout":   {apierrors.NewTimeoutError("the request did not complete in time", 1), metav1.ConditionUnknown, "NotChecked", []string{"did not complete in time"}},
		"no answer":        {errAway, metav1.ConditionUnknown, "NotChecked", nil},
		"cancelled":        {context.Canceled, metav1.ConditionUnknown, "NotChecked", nil},
	}, func(_ *testing.T, g Gomega, c row) {
		found := Checked(c.err, nil)

		g.Expect(found.Status).To(Equal(c.status))
		g.Expect(found.Reason).To(Equal(c.reason))
		for _, word := range c.words {
			g.Expect(found.Message).To(ContainSubstring(word))
		}
	})
}

// The API server repeats rejected values of any length, but limits a condition to 32 KiB. A status with a longer one
// could never be written.
func TestTemplateIsBrief(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	long := strings.Repeat("ä", 20_000)
	fault := field.Invalid(field.NewPath("spec", "template", "spec", "containers").Index(0).Child("name"), long, "must be shorter")

	message := Checked(invalid(fault, fault, fault, fault, fault, fault), nil).Message

	g.Expect(len(message)).To(BeNumerically("<=", 32<<10))
	g.Expect(utf8.ValidString(message)).To(BeTrue())
	g.Expect(message).To(ContainSubstring("spec.template.spec.containers[0].name: "))
}
