// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestTemplateAccepted(t *testing.T) {
	condition := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: scaledjobv1.ConditionTemplateValid, Status: status, ObservedGeneration: generation}}
	}
	unchecked := report.Checked(errAway, nil)
	rejected := report.Checked(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails", nil), nil)
	type row struct {
		known  []metav1.Condition
		answer *report.Condition
		want   bool
	}
	bubble.Each(t, map[string]row{
		"never asked":              {},
		"accepted now":             {answer: report.Checked(nil, nil), want: true},
		"rejected now":             {known: condition(metav1.ConditionTrue, 3), answer: rejected},
		"no verdict":               {answer: unchecked},
		"no verdict any more":      {known: condition(metav1.ConditionTrue, 3), answer: unchecked},
		"no verdict before":        {known: condition(metav1.ConditionUnknown, 3)},
		"accepted before":          {known: condition(metav1.ConditionTrue, 3), want: true},
		"rejected before":          {known: condition(metav1.ConditionFalse, 3)},
		"accepted before the edit": {known: condition(metav1.ConditionTrue, 2)},
	}, func(_ *testing.T, g Gomega, c row) {
		sj := scaledJob()
		sj.Generation = 3
		g.Expect(templateAccepted(sj, c.known, c.answer)).To(Equal(c.want))
	})
}

// replacing is a ScaledJob with the rollout strategy Immediate.
func replacing() *scaledjobv1.ScaledJob { return rollingOut(scaledjobv1.RolloutImmediate) }

func rollingOut(strategy scaledjobv1.RolloutStrategy) *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.Spec.Rollout.Strategy = strategy
	return sj
}

func (w *fakeEnv) rollOut(ctx context.Context, strategy scaledjobv1.RolloutStrategy) {
	w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Rollout.Strategy = strategy })
}

// pods sets the numbers of Pods of a Job, like the Job controller.
func (w *fakeEnv) pods(_ context.Context, name string, active, ready int32) {
	w.server.update(name, func(job *batchv1.Job) { job.Status.Active, job.Status.Ready = active, &ready })
}

func anotherImage(spec *scaledjobv1.ScaledJobSpec) {
	spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "worker:2"
}

func (w *fakeEnv) images(ctx context.Context) map[string]int {
	images := map[string]int{}
	for _, job := range w.jobs(ctx) {
		images[job.Spec.Template.Spec.Containers[0].Image]++
	}
	return images
}

func TestAnEditedTemplateReplacesUnfinishedJobs(t *testing.T) {
	w := inParallel(t, replacing())
	w.reconcileAt(t.Context(), 30)
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)

	w.edit(t.Context(), anotherImage)
	w.reconcile(t.Context())
	w.Expect(w.events.reasons).To(ContainElement("ReplacedJobs"))
	w.reconcile(t.Context())

	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 1, "worker:2": 3}),
		"the finished Job stays as history")
}

func TestWhatDoesNotReplaceJobs(t *testing.T) {
	rejected := apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails", field.ErrorList{
		field.Invalid(field.NewPath("spec"), "worker:2", "is no image"),
	})
	type row struct {
		gradual bool
		change  func(ctx context.Context, w *fakeEnv)
	}
	bubble.Each(t, map[string]row{
		"another image, with the strategy Gradual": {gradual: true, change: func(ctx context.Context, w *fakeEnv) { w.edit(ctx, anotherImage) }},
		"a change of the strategy to Immediate": {gradual: true, change: func(ctx context.Context, w *fakeEnv) {
			w.rollOut(ctx, scaledjobv1.RolloutImmediate)
		}},
		"another image, if no Job may be created": {change: func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { anotherImage(spec); spec.MaxReplicas = new(int32(0)) })
		}},
		"another image, edited back": {change: func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, anotherImage)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate = scaledJob().Spec.JobTemplate })
		}},
		"an image that a policy forbids": {change: func(ctx context.Context, w *fakeEnv) {
			w.onDryRun = func() error { return errForbidden }
			w.edit(ctx, anotherImage)
		}},
		"another image, while creating fails": {change: func(ctx context.Context, w *fakeEnv) {
			w.onCreate = func(context.Context, *batchv1.Job, func() error) error { return errForbidden }
			w.queues.SetDepth(emailQueue, 40)
			w.edit(ctx, anotherImage)
		}},
		"another maximum": {change: func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(2)) })
		}},
		"a restart": {change: func(_ context.Context, w *fakeEnv) { w.forgetAll() }},
		"another image, as long as Redis is away": {change: func(ctx context.Context, w *fakeEnv) {
			w.queues.SetError(emailQueue, &failure.Error{Reason: failure.ReasonUnreachable, Err: errAway})
			w.edit(ctx, anotherImage)
		}},
		"another image, as long as it is suspended": {change: func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { anotherImage(spec); spec.Suspend = true })
		}},
		"an image that the API server rejects": {change: func(ctx context.Context, w *fakeEnv) {
			w.onDryRun = func() error { return rejected }
			w.edit(ctx, anotherImage)
		}},
		"an earlier template in a cache that lags": {change: func(ctx context.Context, w *fakeEnv) {
			// As a new leader sees it, to which the cache shows what was before the last edit.
			sj := w.scaledJob(ctx)
			anotherImage(&sj.Spec)
			sj.Generation--
			w.put(sj)
			w.forgetAll()
		}},
		"a template that reads otherwise without an edit": {change: func(ctx context.Context, w *fakeEnv) {
			w.reread(ctx, anotherImage)
			w.forgetAll()
		}},
		"another image, of Jobs of a version with other hashes": {change: func(ctx context.Context, w *fakeEnv) {
			for _, job := range w.jobs(ctx) {
				w.server.update(job.Name, func(job *batchv1.Job) {
					delete(job.Annotations, scaledjobv1.AnnotationTemplateHash)
					job.Annotations["batch.miracle.dev/template-hash"] = "former"
				})
			}
			w.edit(ctx, anotherImage)
		}},
		"another image of a spec that can't be decoded": {change: func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, anotherImage)
			w.specErr = errAway
		}},
	}, func(t *testing.T, _ Gomega, c row) {
		sj := replacing()
		if c.gradual {
			sj.Spec.Rollout.Strategy = scaledjobv1.RolloutGradual
		}
		w := newFakeEnv(t, sj)
		w.reconcileAt(t.Context(), 30)

		c.change(t.Context(), w)
		for range 3 {
			w.reconcile(t.Context())
		}

		w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))
	})
}

// reread changes how the spec reads without an edit.
func (w *fakeEnv) reread(ctx context.Context, change func(*scaledjobv1.ScaledJobSpec)) {
	sj := w.scaledJob(ctx)
	change(&sj.Spec)
	w.put(sj)
}

// It does not matter when the template was edited, when the strategy was, and whether an operator was there to see it.
func TestJobsOfEveryEarlierTemplateAreReplaced(t *testing.T) {
	inBubbles(t, rollingOut(scaledjobv1.RolloutGradual), map[string]func(ctx context.Context, w *fakeEnv){
		"the strategy follows the edit": func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, anotherImage)
			w.reconcile(ctx)
			w.rollOut(ctx, scaledjobv1.RolloutImmediate)
		},
		"the strategy precedes the edit": func(ctx context.Context, w *fakeEnv) {
			w.rollOut(ctx, scaledjobv1.RolloutImmediate)
			w.reconcile(ctx)
			w.edit(ctx, anotherImage)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = 60 })
		},
		"an operator that was away, and a status that is gone": func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, anotherImage)
			w.rollOut(ctx, scaledjobv1.RolloutImmediate)
			w.forgetAll()
			sj := w.scaledJob(ctx)
			sj.Status = scaledjobv1.ScaledJobStatus{}
			w.put(sj)
		},
		"there and back, with Jobs of both": func(ctx context.Context, w *fakeEnv) {
			w.edit(ctx, anotherImage)
			w.reconcileAt(ctx, 40)
			w.Expect(w.images(ctx)).To(Equal(map[string]int{"worker:1": 3, "worker:2": 1}))
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate = scaledJob().Spec.JobTemplate })
			w.reconcile(ctx)
			w.edit(ctx, anotherImage)
			w.rollOut(ctx, scaledjobv1.RolloutImmediate)
		},
	}, func(ctx context.Context, w *fakeEnv, change func(ctx context.Context, w *fakeEnv)) {
		w.reconcileAt(ctx, 30)
		w.setReady(ctx, 1)

		change(ctx, w)
		for range 3 {
			w.reconcile(ctx)
		}
		w.Expect(w.images(ctx)).To(And(HaveLen(1), HaveKey("worker:2")))
	})
}

// A corrected image takes effect without touching what is at work.
func TestUnstartedReplacesOnlyJobsThatWereNeverReady(t *testing.T) {
	type row struct {
		restart bool
		want    map[string]int
	}
	inBubbles(t, rollingOut(scaledjobv1.RolloutUnstarted), map[string]row{
		"this process has seen all of it": {want: map[string]int{"worker:1": 2, "worker:2": 2}},
		// What has a Pod may have been ready before.
		"another process has created them": {restart: true, want: map[string]int{"worker:1": 3, "worker:2": 1}},
	}, func(ctx context.Context, w *fakeEnv, c row) {
		w.reconcileAt(ctx, 40)
		names := w.names()
		w.pods(ctx, names[0], 1, 1)
		w.pods(ctx, names[1], 1, 1)
		w.pods(ctx, names[2], 1, 0)
		w.reconcile(ctx)
		w.pods(ctx, names[1], 1, 0) // was ready
		w.reconcile(ctx)
		if c.restart {
			w.forgetAll()
			w.reconcile(ctx)
		}

		w.edit(ctx, anotherImage)
		for range 3 {
			w.reconcile(ctx)
		}
		w.Expect(w.images(ctx)).To(Equal(c.want))
		w.Expect(w.events.reasons).To(ContainElement("ReplacedJobs"))
	})
}

// The Pod of a Job becomes ready while the operator deletes the Job.
func TestUnstartedKeepsAJobThatBecomesReady(t *testing.T) {
	inBubble(t, rollingOut(scaledjobv1.RolloutUnstarted), func(ctx context.Context, w *fakeEnv) {
		w.reconcileAt(ctx, 20)
		names := w.names()
		w.pods(ctx, names[0], 1, 0)
		w.onDelete = func(ctx context.Context, object client.Object, expected *metav1.Preconditions) error {
			if object.GetName() == names[0] {
				w.pods(ctx, names[0], 1, 1)
			}
			w.Expect(expected.ResourceVersion).NotTo(BeNil())
			return nil
		}

		w.edit(ctx, anotherImage)
		w.Expect(w.reconcile(ctx).RequeueAfter).To(BeNumerically("<=", historyDelay), "it is looked at again")
		for range 3 {
			w.reconcile(ctx)
		}
		w.Expect(w.images(ctx)).To(Equal(map[string]int{"worker:1": 1, "worker:2": 1}))
		w.Expect(w.names()).To(HaveLen(3))
	})
}

// A strategy without a precondition on the state deletes what changes all the time.
func TestImmediateDeletesByUIDOnly(t *testing.T) {
	w := inParallel(t, replacing())
	w.reconcileAt(t.Context(), 10)
	deletes := 0
	w.onDelete = func(_ context.Context, _ client.Object, expected *metav1.Preconditions) error {
		deletes++
		w.Expect(expected.UID).NotTo(BeNil())
		w.Expect(expected.ResourceVersion).To(BeNil())
		return nil
	}
	w.edit(t.Context(), anotherImage)
	w.reconcile(t.Context())
	w.Expect(deletes).To(Equal(1))
}
