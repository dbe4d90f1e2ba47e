// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/stored"
)

// maxEdits is how many edits of a ScaledJob are looked back upon.
const maxEdits = 16

// template is a job template, and since when it is that of its ScaledJob.
type template struct {
	hash string
	// generation is that of the spec since which nobody has edited the template.
	generation int64
	// changed says that its hash is another than at the pass before.
	changed bool
}

// templateOf compares the template with that of the pass before. It may read otherwise although nobody has edited it, since what the CRD
// has as a default is put into objects when they are read. So of an edit of the spec after which the template reads otherwise, it is asked
// how the spec before reads today. Without an answer it is taken for an edit, unless Jobs could be deleted for that.
func (r *Reconciler) templateOf(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory) (template, error) {
	before := mem.latest(sj)
	now := template{hash: jobs.TemplateHash(&sj.Spec.JobTemplate), generation: before.TemplateGeneration}
	if before.TemplateHash == "" {
		now.generation = sj.Generation
		return now, nil
	}
	now.changed = now.hash != before.TemplateHash
	if !now.changed || sj.Generation == before.ObservedGeneration {
		return now, nil
	}
	earlier, err := r.hashAt(ctx, sj, before.ObservedGeneration)
	if err != nil && sj.Spec.Rollout.Strategy == scaledjobv1.RolloutImmediate {
		return template{}, err
	}
	if earlier != now.hash {
		now.generation = sj.Generation
	}
	return now, nil
}

// hashAt is the hash that the template of an earlier generation has as it is read today. It is empty if the API server does not keep that
// generation any more, as it does for some minutes.
func (r *Reconciler) hashAt(ctx context.Context, sj *scaledjobv1.ScaledJob, generation int64) (string, error) {
	at := sj
	for range maxEdits {
		before, err := r.writtenBefore(ctx, at)
		if err != nil || before == nil || before.Generation < generation {
			return "", err
		}
		if before.Generation == generation {
			return jobs.TemplateHash(&before.Spec.JobTemplate), nil
		}
		at = before
	}
	return "", nil
}

// writtenBefore is the ScaledJob as it was before it was written as it is here, and nil if the API server does not keep that.
func (r *Reconciler) writtenBefore(ctx context.Context, sj *scaledjobv1.ScaledJob) (*scaledjobv1.ScaledJob, error) {
	version, err := strconv.ParseUint(sj.ResourceVersion, 10, 64)
	if err != nil || version < 2 {
		return nil, nil //nolint:nilerr // Of a version that is no number, it can't be told what was before.
	}
	var found stored.ScaledJobList
	err = r.Live.List(ctx, &found, client.InNamespace(sj.Namespace), &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", sj.Name),
		Raw: &metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(version-1, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		},
	})
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking how the ScaledJob was before: %w", err)
	case len(found.Items) == 0 || found.Items[0].UID != sj.UID:
		return nil, nil
	}
	return &found.Items[0].ScaledJob, nil
}

// replaceable are the Jobs to delete because they are of an earlier template, for others to take their place. There are none unless the
// user asks for that, and until it is known that others can: Jobs may be created now, and the API server does not reject the template.
func replaceable(sj *scaledjobv1.ScaledJob, mem *memory, seen observation, plan plan, judged *report.Condition) []*batchv1.Job {
	if sj.Spec.Rollout.Strategy != scaledjobv1.RolloutImmediate || !plan.mayCreate || !templateUsable(sj, mem, judged) {
		return nil
	}
	return seen.jobs.Outdated(seen.template.hash, seen.template.generation)
}

// templateUsable says that the API server was asked about this template, now or before, and does not reject it.
func templateUsable(sj *scaledjobv1.ScaledJob, mem *memory, judged *report.Condition) bool {
	if !mem.templateTurn.IsZero() {
		return false
	}
	if judged != nil {
		return judged.Status != metav1.ConditionFalse
	}
	known := apimeta.FindStatusCondition(mem.latest(sj).Conditions, scaledjobv1.ConditionTemplateValid)
	return known != nil && known.ObservedGeneration == sj.Generation && known.Status != metav1.ConditionFalse
}
