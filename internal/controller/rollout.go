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
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// checkTemplate asks the API server, where that is due, whether it accepts Jobs of the template. It returns nil where there is nothing new
// to report.
func (r *Reconciler) checkTemplate(ctx context.Context, t *target, seen observation) *report.Condition {
	sent, answer := r.templates.DryRun(ctx, t.sj, &t.mem.template, seen.before.Conditions)
	switch {
	case sent:
		return report.Template(answer)
	case t.mem.template.Waits():
		return report.TemplateUnasked
	default:
		return nil
	}
}

// replaceable are the Jobs to delete because they are of an earlier template, for others to take their place. There are none unless the
// user asks for that, and while it is not known that others can: Jobs may be created, none failed to be just now, and the API server accepts
// those of the template.
func replaceable(t *target, seen observation, plan plan, done outcome) []*batchv1.Job {
	possible := plan.mayCreate && t.asks.Policy.MaxReplicas > 0 && !done.failed() && !done.crowded
	if !possible || t.sj.Spec.Rollout.Strategy != scaledjobv1.RolloutImmediate {
		return nil
	}
	if !templateAccepted(t.sj, seen.before.Conditions, done.template) {
		return nil
	}
	return seen.jobs.Outdated(seen.templateHash, seen.rollout)
}

// templateAccepted says that the API server accepts Jobs of this template, by this answer or, if there is none, by what was told before.
func templateAccepted(sj *scaledjobv1.ScaledJob, known []metav1.Condition, answer *report.Condition) bool {
	if answer != nil {
		return answer.Status == metav1.ConditionTrue
	}
	told := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	return told != nil && told.ObservedGeneration == sj.Generation && told.Status == metav1.ConditionTrue
}

// maxWrites is how many writes of a ScaledJob are looked back upon.
const maxWrites = 200

// lastRollout is the generation of the last edit of the template that asked for the Jobs from before it to be replaced, and 0 if none is
// known. The status tells that of the pass before. If the spec was edited since, and Jobs are to be replaced, it is looked whether that
// was an edit of the template: its hash does not tell, since what the CRD has as a default is put into an object when it is read, and may have
// changed. What can't be found out any more, as the API server keeps it for some minutes only, is taken for no edit.
func lastRollout(
	ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob, before *scaledjobv1.ScaledJobStatus, hash string,
) (int64, error) {
	known := before.ObservedGeneration
	if sj.Spec.Rollout.Strategy != scaledjobv1.RolloutImmediate || known == 0 || known == sj.Generation {
		return before.RolloutGeneration, nil
	}
	edited, err := lastEdit(ctx, live, sj, known, hash)
	return max(edited, before.RolloutGeneration), err
}

// lastEdit is the generation of the first write after which the template has read as it does now, and 0 if that was so at a generation that
// is known, or can't be told.
func lastEdit(ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob, known int64, hash string) (int64, error) {
	at := sj
	for range maxWrites {
		before, err := writtenBefore(ctx, live, at)
		if err != nil || before == nil {
			return 0, err
		}
		if jobs.TemplateHash(&before.Spec.JobTemplate) != hash {
			return at.Generation, nil
		}
		if before.Generation <= known {
			return 0, nil
		}
		at = before
	}
	return 0, nil
}

// writtenBefore is the ScaledJob as it was before it was written as it is here, and nil if the API server does not keep that, or it can't be
// read.
func writtenBefore(ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob) (*scaledjobv1.ScaledJob, error) {
	version, err := strconv.ParseUint(sj.ResourceVersion, 10, 64)
	if err != nil || version < 2 {
		return nil, nil //nolint:nilerr // Of a version that is no number, it can't be told what was before.
	}
	var found scaledjob.List
	err = live.List(ctx, &found, client.InNamespace(sj.Namespace), &client.ListOptions{
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
	case len(found.Items) == 0 || found.Items[0].UID != sj.UID || found.Items[0].SpecErr != nil:
		return nil, nil //nolint:nilerr // What can't be read tells nothing.
	}
	return &found.Items[0].ScaledJob, nil
}
