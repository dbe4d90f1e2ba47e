// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// invalid is the answer to a Job with these errors.
func invalid(faults ...*field.Error) error {
	return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails-0", faults)
}

func TestTemplateRejected(t *testing.T) {
	w := inParallel(t, scaledJob())
	w.onDryRun = func() error { return invalid(field.Required(field.NewPath("spec", "template"), "")) }

	w.reconcile(t.Context())

	for _, kind := range []string{scaledjobv1.ConditionTemplateValid, scaledjobv1.ConditionReady} {
		condition := w.condition(t.Context(), kind)
		w.Expect(condition).To(beCondition(metav1.ConditionFalse, scaledjobv1.ReasonRejected), kind)
	}
	w.Expect(w.events.reasons).To(ConsistOf("TemplateRejected"))

	w.onDryRun = func() error { return nil }
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 20 })
	w.reconcile(t.Context())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
}

// An answer without a verdict on the template is not final: the operator sends another dry run at the resync.
func TestTemplateNotJudged(t *testing.T) {
	inBubble(t, scaledJob(), func(ctx context.Context, w *fakeEnv) {
		w.onDryRun = func() error { return errForbidden }
		w.Expect(w.reconcile(ctx)).To(beResync())
		w.Expect(w.condition(ctx, scaledjobv1.ConditionTemplateValid).Status).To(Equal(metav1.ConditionUnknown))
		w.Expect(w.condition(ctx, scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))

		w.onDryRun = func() error { return nil }
		w.reconcileAfter(ctx, 27*time.Second)
		w.Expect(w.condition(ctx, scaledjobv1.ConditionTemplateValid).Status).To(Equal(metav1.ConditionTrue))
	})
}

// A dry run that ends without an answer leaves what an earlier one of the same generation has shown.
func TestATemplateThatIsNotAnswered(t *testing.T) {
	type row struct {
		// first is the answer to the first dry run, which is sent unless alone. edited is a new generation after that.
		alone, edited bool
		first         error
		want          string
	}
	inBubbles(t, scaledJob(), map[string]row{
		"nothing is known":      {alone: true, want: scaledjobv1.ReasonNotChecked},
		"it was rejected":       {first: invalid(field.Required(field.NewPath("spec"), "")), want: scaledjobv1.ReasonRejected},
		"it was accepted":       {want: scaledjobv1.ReasonAccepted},
		"another was rejected":  {first: invalid(field.Required(field.NewPath("spec"), "")), edited: true, want: scaledjobv1.ReasonNotChecked},
		"another one was right": {edited: true, want: scaledjobv1.ReasonNotChecked},
	}, func(ctx context.Context, w *fakeEnv, c row) {
		w.onDryRun = func() error { return c.first }
		if !c.alone {
			w.reconcile(ctx)
			time.Sleep(30 * time.Second)
		}
		if c.edited {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 5 })
		}
		w.onDryRun = func() error { return fmt.Errorf("dry run: %w", context.DeadlineExceeded) }
		w.reconcile(ctx)
		w.awaitNumbers(ctx)
		w.Expect(w.condition(ctx, scaledjobv1.ConditionTemplateValid).Reason).To(Equal(c.want))
	})
}
