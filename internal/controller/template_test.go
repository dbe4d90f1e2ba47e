// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
)

// invalid is the answer to a Job with these errors.
func invalid(faults ...*field.Error) error {
	return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails-0", faults)
}

func TestTemplateIsCheckedOncePerGeneration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		asked := 0
		w.onDryRun = func() error { asked++; return nil }
		for range 3 {
			w.reconcile(t.Context())
			time.Sleep(30 * time.Second)
		}
		w.Expect(asked).To(Equal(1))

		w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 5 })
		w.reconcile(t.Context())
		w.reconcile(t.Context())
		w.Expect(asked).To(Equal(2))
	})
}

func TestTemplateRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.onDryRun = func() error { return invalid(field.Required(field.NewPath("spec", "template"), "")) }

	w.reconcile(t.Context())

	for _, kind := range []string{scaledjobv1.ConditionTemplateValid, scaledjobv1.ConditionReady} {
		condition := w.condition(t.Context(), kind)
		w.Expect(condition.Status).To(Equal(metav1.ConditionFalse), kind)
		w.Expect(condition.Reason).To(Equal(scaledjobv1.ReasonRejected), kind)
	}
	w.Expect(w.events.reasons).To(ConsistOf("TemplateRejected"))

	w.onDryRun = func() error { return nil }
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 20 })
	w.reconcile(t.Context())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
}

// An answer without a verdict on the template is not final: the operator sends another dry run at the resync.
func TestTemplateNotJudged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.onDryRun = func() error { return errForbidden }
		w.Expect(w.reconcile(t.Context())).To(beResync())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Status).To(Equal(metav1.ConditionUnknown))
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))

		w.onDryRun = func() error { return nil }
		time.Sleep(27 * time.Second)
		w.reconcile(t.Context())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Status).To(Equal(metav1.ConditionTrue))
	})
}

// A dry run without a place is sent when there is one.
func TestTemplateThatWaitsForItsCheckIsSeenInItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	giveBack := w.takeAll(enqueue.KindDryRun)
	w.Expect(w.reconcile(t.Context())).To(beResync())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).
		To(Equal(scaledjobv1.ReasonNotChecked))
	giveBack()
	w.Expect(w.reconcile(t.Context())).To(beResync())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).
		To(Equal(scaledjobv1.ReasonAccepted))
}

// The dry run of the previous generation was a moment ago. The next one must not wait for the resync.
func TestEditedTemplateIsCheckedInItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.onDryRun = func() error {
			return invalid(field.Invalid(field.NewPath("spec", "backoffLimit"), -1, "must not be negative"))
		}
		w.reconcile(t.Context())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).
			To(Equal(scaledjobv1.ReasonRejected))

		w.onDryRun = func() error { return nil }
		giveBack := w.takeAll(enqueue.KindDryRun)
		edited := w.scaledJob(t.Context())
		edited.Generation++
		w.Expect(w.api.Update(t.Context(), edited)).To(Succeed())
		w.reconcile(t.Context())
		giveBack()
		time.Sleep(time.Second) // A status is written once a second.
		w.reconcile(t.Context())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).
			To(Equal(scaledjobv1.ReasonAccepted))
	})
}

// takeAll takes all places of this kind that the namespace of the tests may have, and returns how to give one back.
func (w *world) takeAll(kind enqueue.Kind) (giveBack func()) {
	for i := 0; ; i++ {
		pass := w.r.places.Begin(types.NamespacedName{Namespace: emails.Namespace, Name: fmt.Sprint(i)})
		taken := pass.Take(kind)
		if taken == nil {
			pass.End(enqueue.EndedFailing)
			return giveBack
		}
		giveBack = taken
	}
}

// A reconcile has one place at a time: a single worker creates Jobs, sends the dry run, deletes Jobs and writes the
// status.
func TestReconcileTakesOnePlaceAtATime(t *testing.T) {
	t.Parallel()
	sj := scaledJob()
	sj.Spec.SuccessfulJobsHistoryLimit = new(int32(0))
	w := newWorld(t, sj)
	w.r.places = enqueue.NewPlaces(1, func(int, ...types.NamespacedName) {})
	checks := 0
	w.onDryRun = func() error { checks++; return nil }
	w.queues.SetDepth(emailQueue, 10)
	w.reconcile(t.Context())
	w.finishAt(t.Context(), w.names()[0], batchv1.JobComplete, time.Now().Add(-historyDelay))
	w.queues.SetDepth(emailQueue, 20)

	w.reconcile(t.Context())

	w.Expect(w.names()).To(HaveLen(3))
	w.Expect(checks).To(Equal(1))
	w.Expect(w.jobs(t.Context())).To(HaveLen(2), "the finished one is deleted")
	w.Expect(w.applied).To(BeNumerically(">", 0), "statuses")
}
