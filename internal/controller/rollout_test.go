// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
)

func TestTemplateAccepted(t *testing.T) {
	t.Parallel()
	condition := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: scaledjobv1.ConditionTemplateValid, Status: status, ObservedGeneration: generation}}
	}
	unchecked := report.Checked(errAway, nil)
	rejected := report.Checked(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails", nil), nil)
	for name, c := range map[string]struct {
		known  []metav1.Condition
		answer *report.Condition
		want   bool
	}{
		"never asked":              {},
		"accepted now":             {answer: report.Checked(nil, nil), want: true},
		"rejected now":             {known: condition(metav1.ConditionTrue, 3), answer: rejected},
		"no verdict":               {answer: unchecked},
		"no verdict any more":      {known: condition(metav1.ConditionTrue, 3), answer: unchecked},
		"no verdict before":        {known: condition(metav1.ConditionUnknown, 3)},
		"accepted before":          {known: condition(metav1.ConditionTrue, 3), want: true},
		"rejected before":          {known: condition(metav1.ConditionFalse, 3)},
		"accepted before the edit": {known: condition(metav1.ConditionTrue, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := scaledJob()
			sj.Generation = 3
			NewWithT(t).Expect(templateAccepted(sj, c.known, c.answer)).To(Equal(c.want))
		})
	}
}
