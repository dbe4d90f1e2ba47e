// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobtemplate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
)

// scaledJob is one that has been edited twice.
func scaledJob() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "emails", UID: "uid-1", Generation: 3, ResourceVersion: "30"},
		Spec:       scaledjobv1.ScaledJobSpec{PollingIntervalSeconds: 30},
	}
}

// dryRuns is an API server that keeps what it is asked to create, and its answer to all of that.
type dryRuns struct {
	client.Writer
	asked  []*batchv1.Job
	answer error
}

func (d *dryRuns) Create(_ context.Context, object client.Object, opts ...client.CreateOption) error {
	if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) == 0 {
		return errors.New("that would create a Job")
	}
	d.asked = append(d.asked, object.(*batchv1.Job))
	return d.answer
}

func TestCheckDue(t *testing.T) {
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
			check := Check{asked: c.checked}
			NewWithT(t).Expect(check.due(sj, c.conditions, now)).To(Equal(c.want))
		})
	}
}

// What is checked is what would be created, under a name that no Job ever gets.
func TestCheckSendsADryRun(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := &dryRuns{}
	var check Check

	g.Expect(NewChecker(server).Check(t.Context(), scaledJob(), &check, nil)).To(Equal(report.Template(nil)))

	g.Expect(server.asked).To(HaveLen(1))
	g.Expect(server.asked[0].Name).To(Equal(jobs.Name("emails", "uid-1", jobs.DryRunOrdinal)))
	g.Expect(check.Turn).To(BeZero())
	g.Expect(check.asked).NotTo(BeZero())
}

// Ten thousand ScaledJobs at the start must not mean ten thousand dry runs at once.
func TestChecksAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &dryRuns{}
		checker := NewChecker(server)
		checks := make([]Check, 2*ChecksPerSecond)
		answers := func(checks []Check) (reasons []string) {
			for i := range checks {
				reasons = append(reasons, checker.Check(t.Context(), scaledJob(), &checks[i], nil).Reason)
			}
			return reasons
		}

		reasons := answers(checks)
		g.Expect(server.asked).To(HaveLen(ChecksPerSecond))
		g.Expect(reasons[ChecksPerSecond:]).To(HaveEach(scaledjobv1.ReasonNotChecked), "the others are asked later")
		time.Sleep(time.Second)
		g.Expect(answers(checks[ChecksPerSecond:])).To(HaveEach(scaledjobv1.ReasonAccepted), "each in its turn")
		g.Expect(server.asked).To(HaveLen(2 * ChecksPerSecond))
	})
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	told := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: scaledjobv1.ConditionTemplateValid, Status: status, ObservedGeneration: generation}}
	}
	rejected := report.Template(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails", nil))
	for name, c := range map[string]struct {
		known  []metav1.Condition
		answer *report.Condition
		want   bool
	}{
		"never asked":              {},
		"accepted now":             {answer: report.Template(nil), want: true},
		"rejected now":             {known: told(metav1.ConditionTrue, 3), answer: rejected},
		"no judgement":             {answer: report.TemplateUnasked},
		"no judgement any more":    {known: told(metav1.ConditionTrue, 3), answer: report.TemplateUnasked},
		"no judgement before":      {known: told(metav1.ConditionUnknown, 3)},
		"accepted before":          {known: told(metav1.ConditionTrue, 3), want: true},
		"rejected before":          {known: told(metav1.ConditionFalse, 3)},
		"accepted before the edit": {known: told(metav1.ConditionTrue, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(Accepted(scaledJob(), c.known, c.answer)).To(Equal(c.want))
		})
	}
}
