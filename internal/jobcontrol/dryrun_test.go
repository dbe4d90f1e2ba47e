// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// scaledJob is a ScaledJob that was edited twice.
func scaledJob() *scaledjobv1.ScaledJob {
	return &scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mail", Name: "emails", UID: "uid-1", Generation: 3, ResourceVersion: "30"},
		Spec:       scaledjobv1.ScaledJobSpec{PollingIntervalSeconds: 30, JobTemplate: &batchv1.JobTemplateSpec{}},
	}
}

func TestDryRunDue(t *testing.T) {
	now := time.Unix(1000, 0)
	condition := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: scaledjobv1.ConditionTemplateValid, Status: status, ObservedGeneration: generation}}
	}
	type row struct {
		conditions []metav1.Condition
		sent       time.Time
		want       bool
	}
	bubble.Each(t, map[string]row{
		"never asked":                   {want: true},
		"accepted":                      {conditions: condition(metav1.ConditionTrue, 3)},
		"rejected a moment ago":         {conditions: condition(metav1.ConditionFalse, 3), sent: now.Add(-time.Second)},
		"rejected at the last resync":   {conditions: condition(metav1.ConditionFalse, 3), sent: now.Add(-27 * time.Second), want: true},
		"accepted before the edit":      {conditions: condition(metav1.ConditionTrue, 2), sent: now, want: true},
		"rejected before the edit":      {conditions: condition(metav1.ConditionFalse, 2), sent: now, want: true},
		"no answer a moment ago":        {conditions: condition(metav1.ConditionUnknown, 3), sent: now.Add(-time.Second)},
		"no answer at the last resync":  {conditions: condition(metav1.ConditionUnknown, 3), sent: now.Add(-27 * time.Second), want: true},
		"no answer before the restart":  {conditions: condition(metav1.ConditionUnknown, 3), want: true},
		"no answer, and edited at once": {conditions: condition(metav1.ConditionUnknown, 2), sent: now, want: true},
	}, func(_ *testing.T, g Gomega, c row) {
		sj := scaledJob()
		run := DryRun{sent: c.sent}
		g.Expect(run.due(sj, c.conditions, now)).To(Equal(c.want))
	})
}

// withTemplate returns the ScaledJob with its template.
func withTemplate() (*scaledjobv1.ScaledJob, error) { return scaledJob(), nil }

// The dry run has the Job that would be created, under a name that no Job gets. Its name and its other metadata are as
// long as those of the first Job, so that the API server accepts either both or none.
func TestDryRunCreatesNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var sent []client.Object
	server := reading(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			g.Expect((&client.CreateOptions{}).ApplyOptions(opts).DryRun).NotTo(BeEmpty())
			sent = append(sent, object)
			return nil
		},
	})
	var run DryRun

	asked, _, err := DryRunner{server, &Patience{}, false, "hash"}.DryRun(t.Context(), scaledJob(), withTemplate, &run, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(BeTrue())

	g.Expect(sent).To(HaveLen(1))
	dryRun, first := sent[0].(*batchv1.Job), jobs.Build(scaledJob(), "hash", 1, 0)
	g.Expect(dryRun.Name).To(And(Equal(jobs.Name("emails", "uid-1", jobs.DryRunOrdinal)), HaveLen(len(first.Name))))
	dryRun.Name, dryRun.Annotations[scaledjobv1.AnnotationOrdinal] = first.Name, "1"
	g.Expect(dryRun).To(Equal(first), "they differ in nothing else")
	g.Expect(run.sent).NotTo(BeZero())
}

// While a webhook hangs, only one reconcile of the namespace waits for it.
func TestOneDryRunOfANamespaceAtATimeMayTakeLong(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		silent := reading(interceptor.Funcs{
			Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		})
		var patient Patience
		dryRun := func(sj *scaledjobv1.ScaledJob, hanging bool) {
			_, _, _ = DryRunner{silent, &patient, hanging, "hash"}.DryRun(t.Context(), sj, withTemplate, &DryRun{}, nil)
		}
		begun, took := time.Now(), make(chan time.Duration, 3)
		for _, namespace := range []string{"mail", "mail", "shop"} {
			sj := scaledJob()
			sj.Namespace = namespace
			go func() {
				dryRun(sj, false)
				took <- time.Since(begun)
			}()
		}
		g.Expect([]time.Duration{<-took, <-took, <-took}).To(Equal([]time.Duration{dryRunTimeout, patientDryRunTimeout, patientDryRunTimeout}))
		dryRun(scaledJob(), false)
		g.Expect(time.Since(begun)).To(Equal(2*patientDryRunTimeout), "the next one may, too")
		_, _ = patient.Begin(scaledJob().Namespace)
		begun = time.Now()
		dryRun(scaledJob(), true)
		g.Expect(time.Since(begun)).To(Equal(hangingDryRunTimeout), "while creates hang")
	})
}
