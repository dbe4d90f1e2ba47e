// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// templateChecksPerSecond bounds the dry runs of all ScaledJobs together.
	templateChecksPerSecond = 5
	// maxCauses is how many faults of a template are named at once, and maxCause how many bytes each may take: the API server repeats
	// the value at fault, but takes no condition that is too long.
	maxCauses = 5
	maxCause  = 256
)

var (
	templateAccepted = conditionValue{metav1.ConditionTrue, scaledjobv1.ReasonAccepted, "The API server accepts Jobs of this template."}
	templateUnasked  = conditionValue{
		metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
		"The API server has not judged the template yet. Jobs are created all the same.",
	}
)

// checkTemplate asks the API server, by a dry run, whether it accepts a Job of the template. It asks once per generation, again at the
// resync as long as there was no answer, and returns nil where there is nothing to ask. Where very many wait to ask, each gets a turn and
// the next pass comes then. It never holds back a Job.
func (r *Reconciler) checkTemplate(ctx context.Context, sj *scaledjobv1.ScaledJob, mem *memory) *conditionValue {
	now := time.Now()
	if !templateCheckDue(sj, mem, now) {
		return nil
	}
	if mem.templateTurn.IsZero() {
		mem.templateTurn = now.Add(r.templates.ReserveN(now, 1).DelayFrom(now))
	}
	if now.Before(mem.templateTurn) {
		return &templateUnasked
	}
	mem.templateTurn, mem.templateCheckedAt = time.Time{}, now
	err := r.Client.Create(ctx, jobs.Build(sj, jobs.DryRunOrdinal), client.DryRunAll)
	found := judge(err)
	return &found
}

func templateCheckDue(sj *scaledjobv1.ScaledJob, mem *memory, now time.Time) bool {
	current := apimeta.FindStatusCondition(mem.latest(sj).Conditions, scaledjobv1.ConditionTemplateValid)
	waits := !mem.templateTurn.IsZero()
	if waits || current == nil || current.ObservedGeneration != sj.Generation {
		return true
	}
	return current.Status == metav1.ConditionUnknown && now.Sub(mem.templateCheckedAt) > pollingInterval(sj)/2
}

// judge tells what the answer to the dry run says of the template. Only a Job that is called invalid speaks against it: a quota, a
// missing right or an API server that is away may be different the next time.
func judge(err error) conditionValue {
	switch {
	case err == nil:
		return templateAccepted
	case apierrors.IsInvalid(err):
		return conditionValue{
			metav1.ConditionFalse, scaledjobv1.ReasonRejected,
			"The API server rejects Jobs of this template; correct spec.jobTemplate: " + faults(err),
		}
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return conditionValue{
			metav1.ConditionUnknown, scaledjobv1.ReasonNotChecked,
			"The API server answered " + string(apierrors.ReasonForError(err)) +
				" instead of judging the template. Check quotas, admission policies and the rights of the operator.",
		}
	}
	return templateUnasked
}

// unexplained stands for the faults where the API server names none.
const unexplained = "it does not say why."

// faults names the fields at fault.
func faults(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return unexplained
	}
	var named []string
	for _, cause := range status.Status().Details.Causes {
		if len(named) == maxCauses {
			named = append(named, "and more")
			break
		}
		named = append(named, shorten(strings.TrimPrefix(cause.Field+": "+cause.Message, ": "), maxCause))
	}
	if len(named) == 0 {
		return unexplained
	}
	return strings.Join(named, "; ")
}

// shorten cuts off what exceeds so many bytes, between two characters.
func shorten(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
