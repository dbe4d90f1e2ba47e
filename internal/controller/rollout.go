// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/report"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// checkTemplate sends the dry run of the template if it is due, and returns the condition to report, or nil if there is
// nothing new. A dry run for which running Jobs are to be replaced goes first. One of a large template uses the place of
// its creates.
func (r *Reconciler) checkTemplate(ctx context.Context, t *target, seen observation) *report.Condition {
	kind := enqueue.KindDryRun
	switch {
	case !t.template.Held():
		kind = enqueue.KindLarge
	case replaces(t.sj) && len(seen.jobs.Outdated(seen.templateHash, seen.rollout)) > 0:
		kind = enqueue.KindRollout
	}
	filled := func() (*scaledjobv1.ScaledJob, error) { return r.fill(ctx, t) }
	dryRunner := jobcontrol.DryRunner{Client: r.Client, Take: func() func() { return t.place(kind) }}
	asked, warnings, answer := dryRunner.DryRun(ctx, t.sj, filled, &t.mem.template, seen.before.Conditions)
	switch {
	case asked:
		return report.Checked(answer, warnings)
	case t.mem.template.Waits():
		return report.TemplateUnasked
	default:
		return nil
	}
}

// replaceable returns the unfinished Jobs of an earlier template that are to be deleted and replaced. It returns none
// unless the rollout strategy is Immediate and replacements can be created: creation is neither suspended nor paused,
// no create has just failed, and the API server accepts Jobs of the template.
func replaceable(t *target, seen observation, plan plan, done outcome) []*batchv1.Job {
	possible := plan.mayCreate && t.asks.Policy.MaxReplicas > 0 && !done.failed() && !done.waiting()
	if !possible || !replaces(t.sj) {
		return nil
	}
	if !templateAccepted(t.sj, seen.before.Conditions, done.template) {
		return nil
	}
	return seen.jobs.Outdated(seen.templateHash, seen.rollout)
}

// replaces reports whether running Jobs of an earlier template are to be replaced.
func replaces(sj *scaledjobv1.ScaledJob) bool {
	return sj.Spec.Rollout.Strategy == scaledjobv1.RolloutImmediate
}

// templateAccepted reports whether the API server accepts Jobs of this template, by the answer to the dry run, or
// without an answer by the last reported condition.
func templateAccepted(sj *scaledjobv1.ScaledJob, known []metav1.Condition, answer *report.Condition) bool {
	if answer != nil {
		return answer.Status == metav1.ConditionTrue
	}
	condition := apimeta.FindStatusCondition(known, scaledjobv1.ConditionTemplateValid)
	if condition == nil || condition.ObservedGeneration != sj.Generation {
		return false
	}
	return condition.Status == metav1.ConditionTrue
}

const (
	// maxWrites is the maximum number of earlier versions of a ScaledJob that are read.
	maxWrites = 200
	// historyTimeout bounds the reads of all of them.
	historyTimeout = 10 * time.Second
)

// lastRollout returns the generation of the last edit of the template after which Jobs are to be replaced, and 0 if
// none is known. The status has the value of the last reconcile. If the spec was edited since, lastRollout reads
// earlier versions from the API server to find out whether the edit changed the template. A changed hash does not prove
// that: the API server adds the defaults of the CRD when it reads an object, and a new CRD may have other defaults. The
// API server keeps earlier versions for some minutes only; an edit that it no longer has is taken as no edit of the
// template. lastRollout returns report.ErrNoPlace if the ScaledJob has to wait until it may read.
func (r *Reconciler) lastRollout(
	ctx context.Context, t *target, before *scaledjobv1.ScaledJobStatus, hash string,
) (int64, error) {
	known := before.ObservedGeneration
	if !replaces(t.sj) || known == 0 || known == t.sj.Generation {
		return before.RolloutGeneration, nil
	}
	giveBack := t.pass.Take(enqueue.KindHistory)
	if giveBack == nil {
		return 0, report.ErrNoPlace
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	edited, err := lastEdit(ctx, r.Live, t.sj, known, hash)
	return max(edited, before.RolloutGeneration), err
}

// lastEdit returns the generation of the first write since which the template has had this hash. It returns 0 if the
// template already had it at the known generation, or if that can't be found out.
func lastEdit(
	ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob, known int64, hash string,
) (int64, error) {
	at := sj
	for range maxWrites {
		before, err := writtenBefore(ctx, live, at)
		if err != nil || before == nil {
			return 0, err
		}
		if before.Template.Hash != hash {
			return at.Generation, nil
		}
		if before.Generation <= known {
			return 0, nil
		}
		at = &before.ScaledJob
	}
	return 0, nil
}

// writtenBefore returns the ScaledJob as it was before its last write, or nil if the API server no longer has that
// version or it can't be decoded.
func writtenBefore(
	ctx context.Context, live client.Reader, sj *scaledjobv1.ScaledJob,
) (*scaledjob.ScaledJob, error) {
	version, err := strconv.ParseUint(sj.ResourceVersion, 10, 64)
	if err != nil || version < 2 {
		return nil, nil //nolint:nilerr // Only a numeric version has a known predecessor.
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
		return nil, fmt.Errorf("reading the previous version of the ScaledJob: %w", err)
	case len(found.Items) == 0 || found.Items[0].UID != sj.UID || found.Items[0].SpecErr != nil:
		return nil, nil //nolint:nilerr // A spec that can't be decoded has no known template.
	}
	return &found.Items[0], nil
}
