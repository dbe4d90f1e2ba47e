// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
)

// invalid is the answer to a Job with these faults.
func invalid(faults ...*field.Error) error {
	return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails-0", faults)
}

func TestTemplateCheckDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	condition := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: scaledjobv1.ConditionTemplateValid, Status: status, ObservedGeneration: generation}}
	}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		checked    time.Time
		want       bool
	}{
		"never asked":                   {want: true},
		"accepted":                      {conditions: condition(metav1.ConditionTrue, 3)},
		"rejected":                      {conditions: condition(metav1.ConditionFalse, 3)},
		"accepted before the edit":      {conditions: condition(metav1.ConditionTrue, 2), checked: now, want: true},
		"rejected before the edit":      {conditions: condition(metav1.ConditionFalse, 2), checked: now, want: true},
		"no answer a moment ago":        {conditions: condition(metav1.ConditionUnknown, 3), checked: now.Add(-time.Second)},
		"no answer at the last resync":  {conditions: condition(metav1.ConditionUnknown, 3), checked: now.Add(-27 * time.Second), want: true},
		"no answer before the restart":  {conditions: condition(metav1.ConditionUnknown, 3), want: true},
		"no answer, and edited at once": {conditions: condition(metav1.ConditionUnknown, 2), checked: now, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := scaledJob()
			sj.Generation = 3
			sj.Status.Conditions = c.conditions
			NewWithT(t).Expect(templateCheckDue(sj, &memory{templateCheckedAt: c.checked}, now)).To(Equal(c.want))
		})
	}
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
	w.queues.SetDepth(emailQueue, 25)
	w.onDryRun = func() error { return invalid(field.Required(field.NewPath("spec", "template"), "")) }

	w.reconcile(t.Context())

	w.Expect(w.jobs(t.Context())).To(HaveLen(3), "it is no reason to hold back a Job")
	for _, kind := range []string{scaledjobv1.ConditionTemplateValid, scaledjobv1.ConditionReady} {
		condition := w.condition(t.Context(), kind)
		w.Expect(condition.Status).To(Equal(metav1.ConditionFalse), kind)
		w.Expect(condition.Reason).To(Equal(scaledjobv1.ReasonRejected), kind)
	}
	w.Expect(w.events.reasons).To(ConsistOf("CreatedJobs", "TemplateRejected"))

	w.onDryRun = func() error { return nil }
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = 20 })
	w.reconcile(t.Context())
	w.Expect(w.condition(t.Context(), scaledjobv1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
}

// An answer that says nothing about the template is not final: the API server is asked again at the resync.
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

// Ten thousand ScaledJobs at the start must not mean ten thousand dry runs at once.
func TestTemplateChecksAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		asked := 0
		w.onDryRun = func() error { asked++; return nil }
		memories := make([]memory, 2*templateChecksPerSecond)
		judged := func(memories []memory) (reasons []string) {
			for i := range memories {
				reasons = append(reasons, w.r.checkTemplate(t.Context(), scaledJob(), &memories[i]).Reason)
			}
			return reasons
		}

		reasons := judged(memories)
		w.Expect(asked).To(Equal(templateChecksPerSecond))
		w.Expect(reasons[templateChecksPerSecond:]).To(HaveEach(scaledjobv1.ReasonNotChecked), "the others are asked later")
		time.Sleep(time.Second)
		w.Expect(judged(memories[templateChecksPerSecond:])).To(HaveEach(scaledjobv1.ReasonAccepted), "each in its turn")
		w.Expect(asked).To(Equal(2 * templateChecksPerSecond))
	})
}

// Nobody waits for the resync to learn what is wrong with a template.
func TestTemplateThatWaitsForItsCheckIsSeenInItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.onDryRun = func() error { return nil }
		w.r.templates.ReserveN(time.Now(), templateChecksPerSecond)
		w.r.templates.ReserveN(time.Now(), templateChecksPerSecond)
		result := w.reconcile(t.Context())
		w.Expect(result.RequeueAfter).To(BeNumerically("~", 1200*time.Millisecond, time.Millisecond))
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).To(Equal(scaledjobv1.ReasonNotChecked))
		time.Sleep(result.RequeueAfter)
		w.Expect(w.reconcile(t.Context())).To(beResync())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).To(Equal(scaledjobv1.ReasonAccepted))
	})
}

// The check of the former generation was a moment ago. That of this one must not wait for the resync, nor be waited for in a loop.
func TestEditedTemplateIsCheckedInItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scaledJob())
		w.onDryRun = func() error {
			return invalid(field.Invalid(field.NewPath("spec", "backoffLimit"), -1, "must not be negative"))
		}
		w.reconcile(t.Context())
		w.Expect(w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason).To(Equal(scaledjobv1.ReasonRejected))

		w.onDryRun = func() error { return nil }
		w.r.templates.ReserveN(time.Now(), templateChecksPerSecond)
		edited := w.scaledJob(t.Context())
		edited.Generation++
		w.Expect(w.api.Update(t.Context(), edited)).To(Succeed())
		passes := 0
		for w.condition(t.Context(), scaledjobv1.ConditionTemplateValid).Reason != scaledjobv1.ReasonAccepted {
			time.Sleep(w.reconcile(t.Context()).RequeueAfter)
			passes++
			w.Expect(passes).To(BeNumerically("<=", 3))
		}
	})
}

// What is checked is what would be created, under a name that no Job ever gets.
func TestTemplateCheckSendsADryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scaledJob())
	w.onDryRun = func() error { return nil }

	w.Expect(w.r.checkTemplate(t.Context(), scaledJob(), &memory{})).To(Equal(report.Template(nil)))

	w.Expect(w.names()).To(BeEmpty())
	w.Expect(w.jobs(t.Context())).To(BeEmpty())
}
