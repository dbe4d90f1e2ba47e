// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/report"
)

// templateChecksPerSecond bounds the dry runs of all ScaledJobs together.
const templateChecksPerSecond = 5

// checkTemplate asks the API server, by a dry run, whether it accepts a Job of the template. It asks once per generation, again at the
// resync as long as there was no answer, and returns nil where there is nothing to ask. Where very many wait to ask, each gets a turn and
// the next pass comes then. It never holds back a Job.
func (r *Reconciler) checkTemplate(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory) *report.Condition {
	now := time.Now()
	if !templateCheckDue(sj, mem, now) {
		return nil
	}
	if mem.templateTurn.IsZero() {
		mem.templateTurn = now.Add(r.templates.ReserveN(now, 1).DelayFrom(now))
	}
	if now.Before(mem.templateTurn) {
		return report.TemplateUnasked
	}
	mem.templateTurn, mem.templateCheckedAt = time.Time{}, now
	err := r.Client.Create(ctx, jobs.Build(sj, jobs.DryRunOrdinal, 0), client.DryRunAll)
	return report.Template(err)
}

func templateCheckDue(sj *scaledjobv1.ScaledJob, mem *memory, now time.Time) bool {
	current := apimeta.FindStatusCondition(mem.latest(sj).Conditions, scaledjobv1.ConditionTemplateValid)
	waits := !mem.templateTurn.IsZero()
	if waits || current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status == metav1.ConditionUnknown && now.Sub(mem.templateCheckedAt) > pollingInterval(sj)/2
}
