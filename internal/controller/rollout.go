// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/enqueue"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/report"
)

// checkTemplate sends the dry run of the template if it is due, and returns the condition to report, or nil if there is
// nothing new. A dry run for which running Jobs are to be replaced goes first.
func (r *Reconciler) checkTemplate(ctx context.Context, t *target, seen observation) *report.Condition {
	kind := enqueue.KindDryRun
	if len(toReplace(t, seen)) > 0 {
		kind = enqueue.KindRollout
	}
	dryRunner := jobcontrol.DryRunner{
		Client: r.Client, Take: func() func() { return t.pass.Take(kind) }, TemplateHash: seen.templateHash,
	}
	asked, warnings, answer := dryRunner.DryRun(ctx, t.sj, t.withTemplate, &t.mem.template, seen.before.Conditions)
	switch {
	case asked:
		return report.Checked(answer, warnings)
	case t.mem.template.Waits():
		return report.TemplateUnasked
	default:
		return nil
	}
}

// doubts reports whether a dry run was accepted although the last create was refused because of the template: the cause
// may be gone, or it may not apply to dry runs.
func (m *memory) doubts(checked *report.Condition, done outcome) bool {
	accepted := checked != nil && checked.Status == metav1.ConditionTrue
	return accepted && done.created == 0 && !done.failed() && m.failures > 0 && m.answer.BlamesTemplate()
}

// replaceable returns the unfinished Jobs of an earlier template that are to be deleted and replaced. It returns none
// unless replacements can be created: creation is neither suspended nor paused, no create has just failed, and the API
// server accepts Jobs of the template.
func replaceable(t *target, seen observation, plan plan, done outcome) []*batchv1.Job {
	possible := plan.mayCreate && t.asks.Policy.MaxReplicas > 0 && !done.failed() && !done.waiting()
	if !possible || !templateAccepted(t.sj, seen.before.Conditions, done.template) {
		return nil
	}
	return toReplace(t, seen)
}

// toReplace returns the unfinished Jobs of an earlier template that the rollout strategy replaces. It depends only on
// what there is now, and not on when the template or the strategy was edited.
func toReplace(t *target, seen observation) []*batchv1.Job {
	strategy := t.sj.Spec.Rollout.Strategy
	if strategy != scaledjobv1.RolloutImmediate && strategy != scaledjobv1.RolloutUnstarted {
		return nil
	}
	outdated := seen.jobs.Outdated(seen.templateHash, t.sj.Generation)
	if strategy == scaledjobv1.RolloutUnstarted {
		return t.mem.readiness.Unstarted(outdated)
	}
	return outdated
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
