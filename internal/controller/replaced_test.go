// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// replacing is a ScaledJob with the rollout strategy Immediate.
func replacing() *scaledjobv1.ScaledJob {
	sj := scaledJob()
	sj.Spec.Rollout.Strategy = scaledjobv1.RolloutImmediate
	return sj
}

func anotherImage(spec *scaledjobv1.ScaledJobSpec) {
	spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "worker:2"
}

// images returns the number of Jobs by image.
func (w *world) images(ctx context.Context) map[string]int {
	images := map[string]int{}
	for _, job := range w.jobs(ctx) {
		images[job.Spec.Template.Spec.Containers[0].Image]++
	}
	return images
}

func TestAnEditedTemplateReplacesUnfinishedJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing())
	w.queues.SetDepth(emailQueue, 30)
	w.reconcile(t.Context())
	w.finish(t.Context(), w.names()[0], batchv1.JobComplete)

	w.edit(t.Context(), anotherImage)
	w.reconcile(t.Context())
	w.Expect(w.events.reasons).To(ContainElement("ReplacedJobs"))
	w.reconcile(t.Context())

	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 1, "worker:2": 3}),
		"the finished Job stays as history")
}

func TestWhatDoesNotReplaceJobs(t *testing.T) {
	t.Parallel()
	rejected := apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails", field.ErrorList{
		field.Invalid(field.NewPath("spec"), "worker:2", "is no image"),
	})
	for name, c := range map[string]struct {
		gradual bool
		change  func(ctx context.Context, w *world)
	}{
		"another image, with the strategy Gradual": {gradual: true, change: func(ctx context.Context, w *world) { w.edit(ctx, anotherImage) }},
		"a later change of the strategy to Immediate": {gradual: true, change: func(ctx context.Context, w *world) {
			w.edit(ctx, anotherImage)
			w.reconcile(ctx)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.Rollout.Strategy = scaledjobv1.RolloutImmediate })
		}},
		"another image, if no Job may be created": {change: func(ctx context.Context, w *world) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { anotherImage(spec); spec.MaxReplicas = new(int32(0)) })
		}},
		"another image, after the earlier versions have expired": {change: func(ctx context.Context, w *world) {
			w.edit(ctx, anotherImage)
			w.past = nil
		}},
		"an image that a policy forbids": {change: func(ctx context.Context, w *world) {
			w.onDryRun = func() error { return errForbidden }
			w.edit(ctx, anotherImage)
		}},
		"another image, while creating fails": {change: func(ctx context.Context, w *world) {
			w.onCreate = func(context.Context, *batchv1.Job, func() error) error { return errForbidden }
			w.queues.SetDepth(emailQueue, 40)
			w.edit(ctx, anotherImage)
		}},
		"another maximum": {change: func(ctx context.Context, w *world) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(2)) })
		}},
		"a restart": {change: func(_ context.Context, w *world) { w.forgetAll() }},
		"another image, as long as Redis is away": {change: func(ctx context.Context, w *world) {
			w.queues.SetError(emailQueue, &failure.Error{Reason: failure.ReasonUnreachable, Err: errAway})
			w.edit(ctx, anotherImage)
		}},
		"another image, as long as it is suspended": {change: func(ctx context.Context, w *world) {
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { anotherImage(spec); spec.Suspend = true })
		}},
		"an image that the API server rejects": {change: func(ctx context.Context, w *world) {
			w.onDryRun = func() error { return rejected }
			w.edit(ctx, anotherImage)
		}},
		"a default that the CRD has now": {change: func(ctx context.Context, w *world) { w.reread(ctx, anotherImage) }},
		"a default that the CRD has now, and a restart": {change: func(ctx context.Context, w *world) {
			w.reread(ctx, anotherImage)
			w.forgetAll()
		}},
		"a default that the CRD has now, and then another maximum": {change: func(ctx context.Context, w *world) {
			w.reread(ctx, anotherImage)
			w.reconcile(ctx)
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = new(int32(2)) })
		}},
		"a default that is first seen with another maximum": {change: func(ctx context.Context, w *world) {
			before := w.scaledJob(ctx)
			anotherImage(&before.Spec) // With the new default.
			w.onHistory = func(asked *client.ListOptions) (*scaledjobv1.ScaledJob, error) {
				w.Expect(asked.Raw.ResourceVersionMatch).To(BeEquivalentTo("Exact"))
				return before, nil
			}
			w.edit(ctx, func(spec *scaledjobv1.ScaledJobSpec) { anotherImage(spec); spec.MaxReplicas = new(int32(2)) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := replacing()
			if c.gradual {
				sj.Spec.Rollout.Strategy = scaledjobv1.RolloutGradual
			}
			w := newWorld(t, sj)
			w.queues.SetDepth(emailQueue, 30)
			w.reconcile(t.Context())

			c.change(t.Context(), w)
			for range 3 {
				w.reconcile(t.Context())
			}

			w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))
		})
	}
}

// reread changes how the spec reads without an edit.
func (w *world) reread(ctx context.Context, change func(*scaledjobv1.ScaledJobSpec)) {
	sj := w.scaledJob(ctx)
	change(&sj.Spec)
	w.Expect(w.api.Update(ctx, sj)).To(Succeed())
	for _, was := range w.past {
		change(&was.Spec)
	}
}

// An earlier edit still counts after edits of other fields, and after the template was another one for a while.
func TestAnEditIsFoundOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing())
	w.queues.SetDepth(emailQueue, 30)
	w.reconcile(t.Context())
	w.edit(t.Context(), anotherImage)
	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.PollingIntervalSeconds = 60 })
	w.reconcile(t.Context())
	w.reconcile(t.Context())
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:2": 3}))

	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "worker:1"
	})
	w.edit(t.Context(), anotherImage)
	w.reconcile(t.Context())
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:2": 3}), "they have the current template")
	sj := w.scaledJob(t.Context())
	w.Expect(w.r.memories.of(sj).status.Latest(sj).RolloutGeneration).To(Equal(int64(5)))
}

// Finding out whether an edit changed the template is worth a delay only if Jobs could be deleted for it.
func TestWithoutHistory(t *testing.T) {
	t.Parallel()
	for _, strategy := range []scaledjobv1.RolloutStrategy{scaledjobv1.RolloutGradual, scaledjobv1.RolloutImmediate} {
		sj := replacing()
		sj.Spec.Rollout.Strategy = strategy
		w := newWorld(t, sj)
		w.queues.SetDepth(emailQueue, 30)
		w.reconcile(t.Context())
		w.edit(t.Context(), anotherImage)
		w.onHistory = func(*client.ListOptions) (*scaledjobv1.ScaledJob, error) { return nil, errAway }
		w.queues.SetDepth(emailQueue, 40)
		if strategy == scaledjobv1.RolloutGradual {
			w.reconcile(t.Context())
			w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3, "worker:2": 1}))
			continue
		}
		w.Expect(w.reconcileFails(t.Context())).To(MatchError(errAway))
		w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))
	}
}

// Only an edit of the template replaces Jobs. Setting the strategy to Immediate does not replace Jobs of earlier edits.
func TestAnEditOfTheRolloutAloneReplacesNothing(t *testing.T) {
	t.Parallel()
	sj := replacing()
	sj.Spec.Rollout.Strategy = scaledjobv1.RolloutGradual
	w := newWorld(t, sj)
	w.queues.SetDepth(emailQueue, 30)
	w.reconcile(t.Context())
	w.edit(t.Context(), anotherImage)
	w.reconcile(t.Context())
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))

	w.edit(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.Rollout.Strategy = scaledjobv1.RolloutImmediate })
	for range 3 {
		w.reconcile(t.Context())
	}
	w.Expect(w.images(t.Context())).To(Equal(map[string]int{"worker:1": 3}))
}
