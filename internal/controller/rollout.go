// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/report"
)

// checked is what is known of the template.
type checked struct {
	// template is what to report of it; nil if that has not changed.
	template *report.Condition
	// again is true if only another create shows whether the refusal of the last one is over.
	again bool
}

// checkTemplate sends the dry run of the template if it is due, and returns what that and the creates show.
func (r *Reconciler) checkTemplate(ctx context.Context, t *target, seen observation, plan plan, created created) checked {
	known := apimeta.FindStatusCondition(seen.before.Conditions, scaledjobv1.ConditionTemplateValid)
	if known != nil && known.ObservedGeneration != t.sj.Generation {
		known = nil
	}
	answered := r.dryRun(ctx, t, seen, known)
	again := t.mem.doubts(answered, created) && int(plan.desired) > len(seen.jobs.Active)
	if again {
		t.mem.refusals.MadeRoom()
		answered = nil
	}
	return checked{report.Tried(created.jobs, created.refused, answered, known), again}
}

// dryRun sends the dry run if it is due, and returns the condition for the answer; nil if none was sent, or if there is
// no answer and known is the condition in the status.
func (r *Reconciler) dryRun(ctx context.Context, t *target, seen observation, known *metav1.Condition) *report.Condition {
	dryRunner := jobcontrol.DryRunner{
		Client: r.Client, Patience: &r.patience, Hangs: r.memories.hangs(t.sj.Namespace), TemplateHash: seen.templateHash,
	}
	asked, warnings, answer := dryRunner.DryRun(ctx, t.sj, t.withTemplate, &t.mem.template, seen.before.Conditions)
	if !asked || known != nil && errors.Is(answer, context.DeadlineExceeded) { // What was answered before says more.
		return nil
	}
	return report.Checked(answer, warnings)
}

// doubts reports whether a dry run was accepted although the last create was refused because of the template: the cause
// may be gone, or it may not apply to dry runs.
func (m *memory) doubts(answered *report.Condition, created created) bool {
	accepted := answered != nil && answered.Status == metav1.ConditionTrue
	return accepted && created.jobs == 0 && !created.failed() && m.failures > 0 && m.answer.BlamesTemplate()
}

// replaceable returns the unfinished Jobs of an earlier template that are to be deleted and replaced. It returns none
// unless replacements can be created: creation is neither suspended nor paused, no create has just failed, and the API
// server accepts Jobs of the template.
func replaceable(t *target, seen observation, plan plan, created created, checked checked) []*batchv1.Job {
	possible := plan.mayCreate && t.spec.Policy.MaxReplicas > 0 && !created.failed()
	if !possible || !templateAccepted(t.sj, seen.before.Conditions, checked.template) {
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
